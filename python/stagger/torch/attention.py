"""`attention`, and the operators stagger::forward and stagger::backward that it is made of."""

import ctypes
import math

import torch

from .. import _lib, errors
from ..plans import plans
from . import forward as forwards
from . import runtime

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


def _gradient_like(tensor):
    """What a gradient is written to: shape and order of strides are the tensor's own."""
    return torch.empty_like(tensor)


def _suits_copies(tensor):
    """Whether the copy engine takes a tensor: 16-byte address and strides, dim without gaps."""
    if tensor.stride(-1) != 1 or tensor.data_ptr() % 16 != 0:
        return False
    return all(size == 1 or (stride > 0 and stride % 8 == 0)
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
    (batch, _, heads, dim) = _view(q, layout).shape
    (batch_k, seq_kv, heads_kv, dim_k) = _view(k, layout).shape
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


def _shape(q, k, layout):
    (batch, seq_q, heads, dim) = _view(q, layout).shape
    (_, seq_kv, heads_kv, _) = _view(k, layout).shape
    return batch, seq_q, heads, seq_kv, heads_kv, dim, q.dtype


def _image(q, k, mask, schedule, layout, sm_margin, invariant):
    device = runtime.device(q.device.index)
    if device.capability[0] != 9:
        raise errors.Unsupported(f"{device.name} has compute capability "
                                 f"{'.'.join(map(str, device.capability))}; the kernel is for 9.0")
    key = runtime.plan_key(_shape(q, k, layout), mask, schedule, sm_margin, invariant, device.sms)
    return device, device.image(key, lambda: runtime.make_plan(key))


def _tensor(tensor, layout):
    strides = _view(tensor, layout).stride()
    return _lib.Tensor(tensor.data_ptr(), (ctypes.c_int64 * 3)(*strides[:3]))


def _forward_cuda(q, k, v, mask, schedule, scale, layout, how, sm_margin, invariant):
    views = [_view(tensor, layout) for tensor in (q, k, v)]
    sms = runtime.device(q.device.index).sms if invariant else 0
    out, lse = forwards.forward(*views, mask, scale, how, invariant, sms)
    return _back(out, layout), lse


def _backward_cuda(d_out, q, k, v, out, lse, mask, schedule, scale, layout, sm_margin, invariant):
    _check(q, k, v, layout)
    for name, tensor in (("d_out", d_out), ("out", out)):
        if tensor.shape != q.shape or tensor.dtype != q.dtype:
            raise ValueError(f"{name} is {tensor.dtype} {tuple(tensor.shape)}, q is {q.dtype} "
                             f"{tuple(q.shape)}")
    view = _view(q, layout)
    if lse.dtype != torch.float32 or tuple(lse.shape) != (view.shape[0], view.shape[2],
                                                          view.shape[1]):
        raise ValueError(f"lse is {lse.dtype} {tuple(lse.shape)}; it is float32 (B, Hq, Sq)")
    with torch.cuda.device(q.device):
        device, image = _image(q, k, mask, schedule, layout, sm_margin, invariant)
        device.raise_if_stopped()
        d_out, q, k, v, out = (each if _suits_copies(each) else each.contiguous()
                               for each in (d_out, q, k, v, out))
        gradients = [_gradient_like(each) for each in (q, k, v)]
        _enqueue(device, image, (q, k, v, out, d_out), lse, gradients, scale, layout)
    return tuple(gradients)


def _enqueue(device, image, tensors, lse, gradients, scale, layout):
    plan, stream = image.plan, torch.cuda.current_stream()
    # Not torch.empty: that would be filled where uninitialised memory is.
    workspace = torch.cuda.caching_allocator_alloc(plan.workspace_bytes, device.index,
                                                   stream.cuda_stream)
    try:
        named = dict(zip(("q", "k", "v", "out", "d_out", "dq", "dk", "dv"),
                         (_tensor(each, layout) for each in (*tensors, *gradients))))
        by_row = _lib.Tensor(lse.data_ptr(), (ctypes.c_int64 * 3)(
            lse.stride(0), lse.stride(2), lse.stride(1)))
        call = _lib.Call(**named, lse=by_row, scale=scale, workspace=workspace,
                         workspace_bytes=plan.workspace_bytes,
                         device_plan=image.address(stream), stream=stream.cuda_stream,
                         status=device.status, call_id=device.note(repr(plan)))
        _lib.check(_lib.library().stagger_backward(plan.handle, ctypes.byref(call)))
    finally:
        torch.cuda.caching_allocator_delete(workspace)  # in the order of the same stream


_library.impl("forward", _forward_cuda, "CUDA")
_library.impl("backward", _backward_cuda, "CUDA")


@torch.library.register_fake("stagger::forward", lib=_library)
def _forward_fake(q, k, v, mask, schedule, scale, layout, how, sm_margin, invariant):
    views = [_view(tensor, layout) for tensor in (q, k, v)]
    if invariant and how == "auto":
        how = forwards.way(mask, views[0].shape[1], views[1].shape[1], views[0].shape[2],
                           views[1].shape[2], how, invariant)
    out, lse = forwards.forward(*views, mask, scale, how)
    return _back(out, layout), lse


@torch.library.register_fake("stagger::backward", lib=_library)
def _backward_fake(d_out, q, k, v, out, lse, mask, schedule, scale, layout, sm_margin, invariant):
    return tuple(_gradient_like(each) for each in (q, k, v))


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
    gradients = torch.ops.stagger.backward(d_out, q, k, v, out, lse, mask, schedule, scale, layout,
                                           sm_margin, invariant)
    return (*gradients,) + (None,) * 7


def _no_second(ctx, *_):
    raise errors.Unsupported("no gradient of the gradient: the backward pass has none")


torch.library.register_autograd("stagger::forward", _gradients, setup_context=_save,
                                lib=_library)
torch.library.register_autograd("stagger::backward", _no_second, lib=_library)


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
    out, lse = torch.ops.stagger.forward(
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
    return torch.ops.stagger.backward(
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


__all__ = ["attention", "attention_backward", "plans", "prepare", "workspace_bytes"]
