"""`attention`, and the operators stagger::forward and stagger::backward that it is made of."""

import math

import torch

from .. import errors
from . import forward as forwards
from . import runtime
from .recipe import Recipe, key_of

if not hasattr(torch.library, "register_autograd"):
    raise ImportError(f"stagger.attention needs torch 2.4 or later; this is {torch.__version__}")

#: Axes of batch, row and head, by layout; the last is head_dim.
LAYOUTS = {"bshd": (0, 1, 2), "bhsd": (0, 2, 1), "sbhd": (1, 0, 2)}

_library = torch.library.Library("stagger", "DEF")
_TAGS = (torch.Tag.needs_fixed_stride_order,)
_library.define(
    "forward(Tensor q, Tensor k, Tensor v, str mask, str schedule, float scale, str layout, "
    "str how, int sm_margin, bool invariant) -> (Tensor, Tensor)", tags=_TAGS)
_library.define(
    "backward(Tensor d_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, str mask, "
    "str schedule, float scale, str layout, int sm_margin, bool invariant) "
    "-> (Tensor, Tensor, Tensor)", tags=_TAGS)


def _view(tensor, layout):
    """A tensor as (B, S, H, D)."""
    return tensor.permute(*LAYOUTS[layout], 3)


def _back(tensor, layout):
    """(B, S, H, D) as the layout has it."""
    places = (*LAYOUTS[layout], 3)
    return tensor.permute(*(places.index(axis) for axis in range(4)))


def _strides(tensor, layout):
    """Strides of batch, row and head."""
    strides = tensor.stride()
    return [strides[axis] for axis in LAYOUTS[layout]]


def _suits_copies(tensor):
    """Whether the copy engine takes a tensor's strides: 16 bytes each, dim without gaps."""
    return tensor.stride(-1) == 1 and all(
        size == 1 or (stride > 0 and stride % 8 == 0)
        for size, stride in zip(tensor.shape[:-1], tensor.stride()[:-1]))


def _check(q, k, v, layout):
    """Raises Unsupported or ValueError, with the reason, for what the kernel does not do."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout is bshd, bhsd or sbhd, not {layout!r}")
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != 4:
            raise ValueError(f"{name} has {tensor.dim()} dimensions; it has 4 ({layout})")
        if tensor.dtype not in runtime.DTYPES:
            raise errors.Unsupported(f"{name} is {tensor.dtype}; the kernel is for bf16 and fp16")
        if tensor.dtype != q.dtype or tensor.device != q.device:
            raise ValueError(f"{name} is {tensor.dtype} on {tensor.device}, q is {q.dtype} on "
                             f"{q.device}")
        if tensor.device.type != "cuda":
            raise errors.Unsupported(f"{name} is on {tensor.device}; the kernel is for GPUs of "
                                     "compute capability 9.0")
    batch, _, heads, dim = _view(q, layout).shape
    batch_k, seq_kv, heads_kv, dim_k = _view(k, layout).shape
    if v.shape != k.shape:
        raise errors.Unsupported(f"v is {tuple(v.shape)}, k is {tuple(k.shape)}: they are alike")
    if batch_k != batch or dim_k != dim:
        raise ValueError(f"k is {tuple(k.shape)}, q is {tuple(q.shape)} ({layout}): batch and "
                         "head_dim are alike")
    if heads % heads_kv != 0:
        raise ValueError(f"{heads} query heads are no multiple of {heads_kv} KV heads")
    if dim not in (64, 128):
        raise errors.Unsupported(f"head_dim is {dim}; the kernel is for 64 and 128")
    if min(q.shape) == 0 or seq_kv == 0:
        raise errors.Unsupported("a tensor without elements")


def _check_outputs(q, out, d_out, lse, layout):
    """The same of what a forward pass left, and of the gradient of it."""
    for name, tensor in (("d_out", d_out), ("out", out)):
        if tensor.shape != q.shape or tensor.dtype != q.dtype or tensor.device != q.device:
            raise ValueError(f"{name} is {tensor.dtype} {tuple(tensor.shape)} on {tensor.device}, "
                             f"q is {q.dtype} {tuple(q.shape)} on {q.device}")
    batch, rows, heads, _ = _view(q, layout).shape
    if lse.dtype != torch.float32 or lse.shape != (batch, heads, rows) or lse.device != q.device:
        raise ValueError(f"lse is {lse.dtype} {tuple(lse.shape)} on {lse.device}; it is float32 "
                         f"(B, Hq, Sq) on {q.device}")


def _shape(q, k, layout):
    batch, seq_q, heads, dim = _view(q, layout).shape
    _, seq_kv, heads_kv, _ = _view(k, layout).shape
    return batch, seq_q, heads, seq_kv, heads_kv, dim, q.dtype


def _image(q, k, mask, schedule, layout, sm_margin, invariant):
    device = runtime.device(q.get_device())
    if device.capability[0] != 9:
        raise errors.Unsupported(f"{device.name} has compute capability "
                                 f"{'.'.join(map(str, device.capability))}; the kernel is for 9.0")
    key = runtime.plan_key(_shape(q, k, layout), mask, schedule, sm_margin, invariant, device.sms)
    return device, device.image(key, lambda: runtime.make_plan(key, device.profile))


def _readable(tensors):
    """Tensors as torch's kernels read them, which do not look at all strides: others are copied."""
    return [each if _suits_copies(each) else each.contiguous() for each in tensors]


def _forward_cuda(q, k, v, mask, schedule, scale, layout, how, sm_margin, invariant):
    aligned = [each.clone() if each.data_ptr() % runtime.ALIGNMENT else each
               for each in _readable((q, k, v))]
    views = [_view(tensor, layout) for tensor in aligned]
    sms = runtime.device(q.device.index).sms if invariant else 0
    out, lse = forwards.forward(*views, mask, scale, how, invariant, sms)
    return _back(out, layout), lse


def _recipe(device, key, tensors, mask, schedule, scale, layout, sm_margin, invariant):
    """The recipe of a call, after every check of what it depends on."""
    d_out, q, k, v, out, lse = tensors
    _check(q, k, v, layout)
    _check_outputs(q, out, d_out, lse, layout)
    _, image = _image(q, k, mask, schedule, layout, sm_margin, invariant)
    strided = q, k, v, out, d_out
    copied = [place for place, each in enumerate(strided) if not _suits_copies(each)]
    strides = [_strides(each, layout) for each in (*strided, *_gradients_like(q, k, v))]
    by_row = lse.stride(0), lse.stride(2), lse.stride(1)
    return device.keep(key, Recipe(image, copied, (*strides, by_row), scale, device.status))


def _gradients_like(q, k, v):
    """What gradients are written to: shape and order of strides are those of what they are of."""
    return [torch.empty_like(each) for each in (q, k, v)]


def _backward_of_copies(tensors, places, lse, arguments):
    """A call of which some tensors are copied first, to where the copy engine takes them."""
    q, k, v, out, d_out = (
        each.clone(memory_format=torch.contiguous_format) if place in places else each
        for place, each in enumerate(tensors))
    found = _backward_cuda(d_out, q, k, v, out, lse, *arguments)
    return tuple(gradient if gradient.stride() == wanted.stride() else wanted.copy_(gradient)
                 for gradient, wanted in zip(found, _gradients_like(*tensors[:3])))


def _backward_cuda(d_out, q, k, v, out, lse, mask, schedule, scale, layout, sm_margin, invariant):
    index = q.get_device()
    if index < 0:
        _check(q, k, v, layout)  # which says so
    if index != torch.cuda.current_device():
        with torch.cuda.device(index):
            return _backward_cuda(d_out, q, k, v, out, lse, mask, schedule, scale, layout,
                                  sm_margin, invariant)
    device = runtime.device(index)
    device.raise_if_stopped()
    arguments = mask, schedule, scale, layout, sm_margin, invariant
    tensors = d_out, q, k, v, out, lse
    key = key_of(tensors, *arguments, runtime.surroundings(sm_margin))
    recipe = device.recipes.get(key)
    if recipe is None:
        recipe = _recipe(device, key, tensors, *arguments)
    strided = q, k, v, out, d_out
    copied = recipe.copied or [place for place, each in enumerate(strided)
                               if each.data_ptr() % runtime.ALIGNMENT]
    if copied:
        return _backward_of_copies(strided, copied, lse, arguments)
    gradients = _gradients_like(q, k, v)
    device.enqueue(recipe, (*strided, *gradients, lse))
    return tuple(gradients)


_library.impl("forward", _forward_cuda, "CUDA")
_library.impl("backward", _backward_cuda, "CUDA")


@torch.library.register_fake("stagger::forward", lib=_library)
def _forward_fake(q, k, v, mask, schedule, scale, layout, how, sm_margin, invariant):
    views = [_view(tensor, layout) for tensor in _readable((q, k, v))]
    if invariant and how == "auto":
        how = forwards.way(mask, views[0].shape[1], views[1].shape[1], views[0].shape[2],
                           views[1].shape[2], how, invariant)
    out, lse = forwards.forward(*views, mask, scale, how)
    return _back(out, layout), lse


@torch.library.register_fake("stagger::backward", lib=_library)
def _backward_fake(d_out, q, k, v, out, lse, mask, schedule, scale, layout, sm_margin, invariant):
    return tuple(_gradients_like(q, k, v))


def _save(ctx, inputs, output):
    q, k, v, *ctx.arguments = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _gradients(ctx, d_out, _):
    if d_out is None:
        return (None,) * 10
    q, k, v, out, lse = ctx.saved_tensors
    mask, schedule, scale, layout, _, sm_margin, invariant = ctx.arguments
    gradients = backward_operator(d_out, q, k, v, out, lse, mask, schedule, scale, layout,
                                  sm_margin, invariant)
    return (*gradients,) + (None,) * 7


def _no_second(ctx, *_):
    raise errors.Unsupported("no gradient of the gradient: the backward pass has none")


torch.library.register_autograd("stagger::forward", _gradients, setup_context=_save,
                                lib=_library)
torch.library.register_autograd("stagger::backward", _no_second, lib=_library)


#: The operators themselves: their names would be looked up at every call.
forward_operator = torch.ops.stagger.forward.default
backward_operator = torch.ops.stagger.backward.default


def _scale(q, scale):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if not (scale > 0 and math.isfinite(scale)):
        raise ValueError(f"scale is {scale}; it is positive and finite")
    return scale


def attention(q, k, v, *, mask="causal", schedule="auto", scale=None, layout="bshd",
              sm_margin=None, forward="auto", invariant=False, return_lse=False):
    """softmax(scale q k^T, masked) v, whose gradients have the same bits in every run.

    q: (B, Sq, Hq, D) by layout ("bshd", "bhsd", "sbhd"), k and v: (B, Skv, Hkv, D); bf16 or fp16,
    D 64 or 128, Hkv divides Hq, and query head h has KV head h // (Hq / Hkv). Any strides; the last
    dimension's is 1, others multiples of 8, else a copy is made. Returns out, like q; with
    return_lse also lse: float32 (B, Hq, Sq), natural logarithm, which has no gradient.

    mask: `stagger.mask(...)` or words ("causal", "full", "sliding:left=511,right=0"). Causal masks
    end together where the lengths differ. scale: 1 / sqrt(D). schedule: a name, or "auto", which
    is a pure function of shape, device and version. sm_margin: SMs left free; beside NCCL they are
    found by default. forward: "auto", "cudnn", "flash", "reference". invariant: every head is
    added up in one order, whatever the batch, and the forward pass is one whose bits do not depend
    on it either.

    Raises Unsupported, with the reason, for what the kernel does not do; Timeout if a call before
    was stopped.
    """
    if torch.is_autocast_enabled(q.device.type):
        dtype = torch.get_autocast_dtype(q.device.type)
        q, k, v = (each.to(dtype) for each in (q, k, v))
    _check(q, k, v, layout)
    out, lse = forward_operator(
        q, k, v, forwards.text_of(mask), schedule, _scale(q, scale), layout, forward,
        -1 if sm_margin is None else sm_margin, invariant)
    return (out, lse) if return_lse else out


def attention_backward(d_out, q, k, v, out, lse, *, mask="causal", schedule="auto", scale=None,
                       layout="bshd", sm_margin=None, invariant=False):
    """dq, dk, dv of attention, for a forward pass of your own.

    Tensors as of attention(); lse: float32 (B, Hq, Sq), natural logarithm of the sum of
    exp(score), either infinity for a query that sees nothing. Gradients have the strides of what
    they are of, where that has no gaps.
    """
    return backward_operator(
        d_out, q, k, v, out, lse, forwards.text_of(mask), schedule, _scale(q, scale), layout,
        -1 if sm_margin is None else sm_margin, invariant)


def prepare(q, k, *, mask="causal", schedule="auto", layout="bshd", sm_margin=None,
            invariant=False):
    """Builds and uploads the plan for tensors of these shapes, and returns it: before a graph is
    captured, or to know what a call will do."""
    with torch.cuda.device(q.device):
        return _image(q, k, forwards.text_of(mask), schedule, layout,
                      -1 if sm_margin is None else sm_margin, invariant)[1].plan


def workspace_bytes(q, k, **arguments):
    """What a backward call takes beside its outputs, freed when it is enqueued."""
    return prepare(q, k, **arguments).workspace_bytes


__all__ = ["attention", "attention_backward", "prepare", "workspace_bytes"]
