"""The backward pass of arrays that another library has on a GPU (CuPy, JAX), by DLPack.

Memory beside theirs is the driver's, in the order of the caller's stream; nothing waits for the device
but the first call of a shape, which uploads its plan.
"""

import ctypes
import functools

from . import _lib, dlpack, driver, errors, host, machines, settings
from .plans import expect_plan_of, expect_room
from .stops import Stops, where

MOST_IMAGES = 128
_images = {}  # of plans, by the plan and the device


@functools.lru_cache(maxsize=None)
def _stops(index):
    return Stops(index)


def _image(plan, index, stream):
    """A plan's image on the current device, for any stream: this one has uploaded it."""
    memory = _images.get((plan, index))
    if memory is None:
        memory = driver.Memory(index, plan.device_bytes)
        _lib.check(_lib.library().stagger_plan_upload(
            plan.handle, memory.address, plan.device_bytes, stream))
        driver.call("cuStreamSynchronize", stream)
        for oldest in list(_images)[:len(_images) + 1 - MOST_IMAGES]:
            _images.pop(oldest, None)
        _images[plan, index] = memory
    return memory


def _plan_of(index, **arguments):
    """The plan of a problem on all SMs of the current device."""
    known = _lib.expect_gpu()
    plan = host.plan_of(sms=arguments.pop("sms") or known["sms"], **arguments,
                        machine=machines.ranking_profile(driver.name_of(index)))
    if plan.device_bytes == 0:
        raise errors.Unsupported(f"the kernel does not run {plan!r}")
    expect_room(plan, known["sms"])
    return plan


def _tensor(array, axes):
    return _lib.Tensor(array.address, (ctypes.c_int64 * 3)(*(array.strides[axis] for axis in axes)))


def backward(named, *, layout, stream, timeout_ms, plan, **problem):
    """dq, dk, dv of `named` arrays (q, k, v, out, d_out, lse), each a dlpack.Gradient."""
    stream = stream or driver.DEFAULT_STREAM
    arrays = {name: dlpack.Array(each, stream) for name, each in named.items()}
    index, dtype = dlpack.expect_alike(arrays)
    sizes = host.sizes_of({name: array.shape for name, array in arrays.items()}, layout)
    axes = host.LAYOUTS[layout]
    with driver.current(index):
        stops = _stops(index)
        stops.raise_if_stopped()
        if plan is None:
            plan = _plan_of(index, dtype=dtype, **problem, **sizes)
        expect_plan_of(plan, sizes)
        image = _image(plan, index, stream)
        gradients = {f"d{name}": dlpack.Gradient(index, arrays[name].shape, dtype, stream)
                     for name in ("q", "k", "v")}
        workspace = driver.Memory(index, plan.workspace_bytes, stream)
        call = _lib.Call(
            **{name: _tensor(array, (0, 2, 1) if name == "lse" else axes)
               for name, array in {**arrays, **gradients}.items()},
            workspace=workspace.address, workspace_bytes=plan.workspace_bytes,
            device_plan=image.address, stream=stream, status=stops.status,
            timeout_ms=settings.longest_wait(timeout_ms), call_id=stops.note(plan, where()))
        _lib.check(_lib.library().stagger_backward(plan.handle, ctypes.byref(call)))
    return tuple(gradients.values())
