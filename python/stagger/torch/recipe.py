"""What calls on tensors of the same shapes and strides have in common, found once.

A call of the kernel is a struct of addresses, strides and numbers. All but the addresses is known
after the first call of its kind, checks included: later ones copy the struct and put in addresses.
"""

import ctypes

from .. import _lib, once, settings

#: Tensors of a call, in the order in which their addresses are put in.
NAMES = ("q", "k", "v", "out", "d_out", "dq", "dk", "dv", "lse")


def _flat_fields():
    """The members of a call, a tensor's being its address and its strides: the same memory, without
    an object for each tensor."""
    for name, kind in _lib.Call._fields_:
        if kind is _lib.Tensor:
            yield name, ctypes.c_void_p
            yield f"{name}_stride", ctypes.c_int64 * 3
        else:
            yield name, kind


class FlatCall(ctypes.Structure):
    """_lib.Call in one level."""

    _fields_ = list(_flat_fields())


def signature(tensors):
    """What of tensors a recipe depends on: all but their addresses."""
    return [(each.shape, each.stride(), each.dtype, each.get_device()) for each in tensors]


def key_of(tensors, *arguments):
    """The key of a recipe."""
    return (*signature(tensors), *arguments)


def warn_of_copies(places):
    """Says once of each tensor that it is copied in every call; not of d_out, which autograd may
    expand. `places` are those of a recipe."""
    for place in places:
        if NAMES[place] != "d_out":
            once.warn(f"{NAMES[place]} is copied before its backward pass: it has a stride along head_dim "
                      "that is not 1, another one that is no multiple of 8, or an address that is no "
                      "multiple of 16 bytes")


class Recipe:
    """A call of a plan on tensors of known strides.

    `image` is the plan on its device, `copied` the places among q, k, v, out and d_out of what the
    copy engine does not take as it lies, and `call` the struct without addresses."""

    __slots__ = ("image", "copied", "call", "handle", "workspace_bytes")

    def __init__(self, image, copied, strides, scale, status, timeout_ms=0):
        self.image, self.copied = image, copied
        self.handle = image.plan.handle
        self.workspace_bytes = image.plan.workspace_bytes
        self.call = FlatCall(size=ctypes.sizeof(_lib.Call), scale=scale,
                             workspace_bytes=self.workspace_bytes, status=status,
                             timeout_ms=settings.longest_wait(timeout_ms))
        for name, stride in zip(NAMES, strides):
            setattr(self.call, f"{name}_stride", (ctypes.c_int64 * 3)(*stride))

    def filled(self, tensors, workspace, device_plan, stream, number):
        """The call of these tensors (q, k, v, out, d_out, dq, dk, dv, lse)."""
        call = FlatCall.from_buffer_copy(self.call)
        (call.q, call.k, call.v, call.out, call.d_out, call.dq, call.dk, call.dv, call.lse) = [
            each.data_ptr() for each in tensors]
        call.workspace, call.device_plan = workspace, device_plan
        call.stream, call.call_id = stream, number
        return call
