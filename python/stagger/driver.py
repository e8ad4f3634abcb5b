"""As much of CUDA's driver as arrays without torch need: the current device, and memory."""

import contextlib
import ctypes
import functools
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p

from . import errors

#: cudaStreamLegacy: the default stream, as DLPack and the driver have it.
DEFAULT_STREAM = 1
_NO_TIMING = 2

_ARGUMENTS = {
    "cuInit": [c_uint], "cuDeviceGet": [c_void_p, c_int], "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDevicePrimaryCtxRetain": [c_void_p, c_int], "cuCtxPushCurrent_v2": [c_void_p],
    "cuCtxPopCurrent_v2": [c_void_p], "cuMemAlloc_v2": [c_void_p, c_size_t],
    "cuMemFree_v2": [c_void_p], "cuMemAllocAsync": [c_void_p, c_size_t, c_void_p],
    "cuMemFreeAsync": [c_void_p, c_void_p], "cuEventCreate": [c_void_p, c_uint],
    "cuEventRecord": [c_void_p, c_void_p], "cuStreamWaitEvent": [c_void_p, c_void_p, c_uint],
    "cuEventDestroy_v2": [c_void_p], "cuStreamSynchronize": [c_void_p],
}


@functools.lru_cache(maxsize=1)
def _library():
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise errors.NoDevice(f"CUDA's driver is not here: {error}") from error
    for name, arguments in _ARGUMENTS.items():
        getattr(library, name).argtypes = arguments
    return library


def call(name, *arguments):
    """Calls a function of the driver. Raises DeviceError with its name if it fails."""
    code = getattr(_library(), name)(*arguments)
    if code:
        raise errors.DeviceError(f"{name} failed with CUresult {code}")


@functools.lru_cache(maxsize=None)
def _context(index):
    """The context that every runtime library shares on a device, kept for good."""
    device, context = c_int(), c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", byref(device), index)
    call("cuDevicePrimaryCtxRetain", byref(context), device.value)
    return context


@contextlib.contextmanager
def current(index):
    """While it lasts, a device is this thread's current one."""
    call("cuCtxPushCurrent_v2", _context(index))
    try:
        yield
    finally:
        call("cuCtxPopCurrent_v2", byref(c_void_p()))


def name_of(index):
    """A device's name."""
    text = ctypes.create_string_buffer(256)
    call("cuDeviceGetName", text, len(text), index)
    return text.value.decode()


class Memory:
    """Memory of the current device, given back when it goes: in the order of a stream, or, without
    one, once the device has done all that uses it."""

    def __init__(self, index, bytes, stream=None):
        self.index, self._stream, self.address = index, stream, None
        address = c_void_p()
        if stream is None:
            call("cuMemAlloc_v2", byref(address), max(bytes, 1))
        else:
            call("cuMemAllocAsync", byref(address), max(bytes, 1), stream)
        self.address = address.value

    def hand_over(self, stream):
        """Lets another stream wait for what its own has to do with it, and be its own from now on."""
        if stream == self._stream:
            return
        event = c_void_p()
        with current(self.index):
            call("cuEventCreate", byref(event), _NO_TIMING)
            call("cuEventRecord", event, self._stream)
            call("cuStreamWaitEvent", stream, event, 0)
            call("cuEventDestroy_v2", event)
        self._stream = stream

    def __del__(self):
        if self.address is None:
            return
        with contextlib.suppress(errors.StaggerError), current(self.index):
            if self._stream is None:
                call("cuMemFree_v2", self.address)
            else:
                call("cuMemFreeAsync", self.address, self._stream)
