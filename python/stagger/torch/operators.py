"""The operators stagger::forward and stagger::backward, which attention on a GPU is made of, and
stagger::visible, a mask spelled out."""

import torch

from .. import errors, mask_names
from ..stops import where
from . import forward as forwards
from . import recipe as recipes
from . import runtime, shapes

_library = torch.library.Library("stagger", "DEF")
_TAGS = (torch.Tag.needs_fixed_stride_order,)
_library.define(
    "forward(Tensor q, Tensor k, Tensor v, str mask, str schedule, float scale, str layout, "
    "str how, int sm_margin, bool invariant, int timeout_ms=0) -> (Tensor, Tensor)", tags=_TAGS)
_library.define(
    "backward(Tensor d_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, str mask, "
    "str schedule, float scale, str layout, int sm_margin, bool invariant, int timeout_ms=0) "
    "-> (Tensor, Tensor, Tensor)", tags=_TAGS)
_library.define("visible(Tensor q, str mask, SymInt seq_q, SymInt seq_kv) -> Tensor")


def plan_of(q, k, mask, schedule, layout, sm_margin, invariant):
    """The device of tensors, the key of the plan of their shapes on it, and what makes it."""
    device = runtime.device(q.get_device())
    why = runtime.refusal(device.index)
    if why:
        raise errors.Unsupported(why)
    key = runtime.plan_key(shapes.sizes_of(q, k, layout), mask, schedule, sm_margin, invariant,
                           device.sms)
    return device, key, lambda: runtime.make_plan(key, device.profile)


def image_of(q, k, mask, schedule, layout, sm_margin, invariant):
    """The device of tensors, and the plan of their shapes on it."""
    device, key, make = plan_of(q, k, mask, schedule, layout, sm_margin, invariant)
    return device, device.image(key, make)


def _readable(tensors):
    """Tensors as torch's kernels read them, which do not look at all strides: others are copied."""
    return [each if shapes.suits_copies(each) else each.contiguous() for each in tensors]


def _forward_cuda(q, k, v, mask, schedule, scale, layout, how, sm_margin, invariant,
                  timeout_ms=0):
    aligned = [each.clone() if each.data_ptr() % runtime.ALIGNMENT else each
               for each in _readable((q, k, v))]
    views = [shapes.view(tensor, layout) for tensor in aligned]
    sms = runtime.device(q.device.index).sms if invariant else 0
    out, lse = forwards.forward(*views, mask_names.text_of(mask), scale, how, invariant, sms,
                                max(sm_margin, 0))
    return shapes.back(out, layout), lse


def _recipe(device, key, tensors, mask, schedule, scale, layout, sm_margin, invariant, timeout_ms):
    """The recipe of a call, after every check of what it depends on."""
    d_out, q, k, v, out, lse = tensors
    shapes.check(q, k, v, layout)
    shapes.check_outputs(q, out, d_out, lse, layout)
    _, image = image_of(q, k, mask, schedule, layout, sm_margin, invariant)
    strided = q, k, v, out, d_out
    copied = [place for place, each in enumerate(strided) if not shapes.suits_copies(each)]
    strides = [shapes.strides_of(each, layout) for each in (*strided, *_gradients_like(q, k, v))]
    by_row = lse.stride(0), lse.stride(2), lse.stride(1)
    return device.keep(key, recipes.Recipe(image, copied, (*strides, by_row), scale, device.status,
                                           timeout_ms))


def _gradients_like(q, k, v):
    """What gradients are written to: shape and order of strides are those of what they are of."""
    return [torch.empty_like(each) for each in (q, k, v)]


def _backward_of_copies(tensors, places, lse, arguments):
    """A call of which some tensors are copied first, to where the copy engine takes them."""
    recipes.warn_of_copies(places)
    q, k, v, out, d_out = (
        each.clone(memory_format=torch.contiguous_format) if place in places else each
        for place, each in enumerate(tensors))
    found = _backward_cuda(d_out, q, k, v, out, lse, *arguments)
    return tuple(gradient if gradient.stride() == wanted.stride() else wanted.copy_(gradient)
                 for gradient, wanted in zip(found, _gradients_like(*tensors[:3])))


def _backward_cuda(d_out, q, k, v, out, lse, mask, schedule, scale, layout, sm_margin, invariant,
                   timeout_ms=0):
    index = q.get_device()
    if index < 0:
        shapes.check(q, k, v, layout)  # tensors of several devices, which is said
        shapes.check_outputs(q, out, d_out, lse, layout)
    if index != torch.cuda.current_device():
        with torch.cuda.device(index):
            return _backward_cuda(d_out, q, k, v, out, lse, mask, schedule, scale, layout,
                                  sm_margin, invariant, timeout_ms)
    device = runtime.device(index)
    device.raise_if_stopped()
    arguments = mask, schedule, scale, layout, sm_margin, invariant, timeout_ms
    tensors = d_out, q, k, v, out, lse
    key = recipes.key_of(tensors, *arguments, runtime.surroundings(sm_margin))
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


def _visible(q, mask, seq_q, seq_kv):
    return forwards.visible(mask_names.text_of(mask), seq_q, seq_kv, q.device)


_library.impl("visible", _visible, "CUDA")
_library.impl("visible", _visible, "CPU")


@torch.library.register_fake("stagger::forward", lib=_library)
def _forward_fake(q, k, v, mask, schedule, scale, layout, how, sm_margin, invariant,
                  timeout_ms=0):
    views = [shapes.view(tensor, layout) for tensor in _readable((q, k, v))]
    mask = mask_names.text_of(mask)
    if invariant and how == "auto":
        how = forwards.way(mask, views[0].shape[1], views[1].shape[1], views[0].shape[2],
                           views[1].shape[2], how, invariant)
    out, lse = forwards.forward(*views, mask, scale, how, invariant and how == "flash")
    return shapes.back(out, layout), lse


@torch.library.register_fake("stagger::backward", lib=_library)
def _backward_fake(d_out, q, k, v, out, lse, mask, schedule, scale, layout, sm_margin, invariant,
                   timeout_ms=0):
    return tuple(_gradients_like(q, k, v))


@torch.library.register_fake("stagger::visible", lib=_library)
def _visible_fake(q, mask, seq_q, seq_kv):
    return q.new_empty((seq_q, seq_kv), dtype=torch.bool)


def _save(ctx, inputs, output):
    q, k, v, *ctx.arguments = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.place = where()


def _gradients(ctx, d_out, _):
    if d_out is None:
        return (None,) * 11
    q, k, v, out, lse = ctx.saved_tensors
    mask, schedule, scale, layout, _, *more = ctx.arguments
    runtime.forward_pass.place = ctx.place
    try:
        gradients = backward_past_autograd(d_out, q, k, v, out, lse, mask, schedule, scale, layout,
                                           *more)
    finally:
        runtime.forward_pass.place = None
    return (*gradients,) + (None,) * 8


def _no_second(ctx, *_):
    raise errors.Unsupported("no gradient of the gradient: the backward pass has none")


torch.library.register_autograd("stagger::forward", _gradients, setup_context=_save,
                                lib=_library)
torch.library.register_autograd("stagger::backward", _no_second, lib=_library)


#: The operators themselves: their names would be looked up at every call.
forward_operator = torch.ops.stagger.forward.default
backward_operator = torch.ops.stagger.backward.default
visible_operator = torch.ops.stagger.visible.default


def backward_past_autograd(*arguments):
    """stagger::backward, without the detour over its formula where none is asked for: the formula
    only refuses, and to have one takes the host a quarter of a call."""
    if torch.is_grad_enabled() and any(each.requires_grad for each in arguments[:6]):
        return backward_operator(*arguments)
    with torch._C._AutoDispatchBelowAutograd():
        return backward_operator(*arguments)
