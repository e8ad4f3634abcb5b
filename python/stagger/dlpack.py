"""Arrays of other libraries on a GPU, by DLPack: read where they lie, and given away.

A capsule named "dltensor" has the address of a managed tensor, whose deleter whoever takes it calls,
or else the capsule's own end. What is read here stays the other library's: the capsule is kept, and
not taken.
"""

import ctypes
from ctypes import POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p

from . import driver, errors

CPU, CUDA, CUDA_MANAGED = 1, 2, 13
#: (code, bits) of a number, by its name here.
DTYPES = {"fp16": (2, 16), "fp32": (2, 32), "bf16": (4, 16)}
_NAME = b"dltensor"


class Device(Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class DataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("device", Device), ("ndim", c_int32), ("dtype", DataType),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class Managed(Structure):
    _fields_ = [("tensor", Tensor), ("context", c_void_p), ("deleter", c_void_p)]


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)
_Destructor = ctypes.PYFUNCTYPE(None, c_void_p)  # of a capsule that has no references any more


def _python(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _python("PyCapsule_New", ctypes.py_object, c_void_p, ctypes.c_char_p, _Destructor)
_pointer = _python("PyCapsule_GetPointer", c_void_p, ctypes.py_object, ctypes.c_char_p)
_pointer_of_dying = _python("PyCapsule_GetPointer", c_void_p, c_void_p, ctypes.c_char_p)
_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, c_void_p, ctypes.c_char_p)


def is_on_gpu(array):
    """Whether an array is another library's on a GPU."""
    where = getattr(array, "__dlpack_device__", None)
    return where is not None and int(where()[0]) in (CUDA, CUDA_MANAGED)


def row_major(shape):
    """Strides of an array without gaps, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


class Array:
    """An array on a GPU as it is: device, address, dtype, shape, strides in elements. It is ready for
    the stream, and kept for as long as this is."""

    def __init__(self, source, stream):
        self._capsule = source.__dlpack__(stream=stream)
        tensor = Managed.from_address(_pointer(self._capsule, _NAME)).tensor
        self.device = tensor.device.id
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.shape = tuple(tensor.shape[:tensor.ndim])
        self.strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else \
            row_major(self.shape)
        kind = tensor.dtype.code, tensor.dtype.bits
        names = [name for name, each in DTYPES.items() if each == kind and tensor.dtype.lanes == 1]
        self.dtype = names[0] if names else f"of DLPack's kind {kind}"


#: What was given away, by the address of its managed tensor.
_given = {}


@_Deleter
def _delete(address):
    _given.pop(address, None)


@_Destructor
def _destroy(capsule):
    if _is_valid(capsule, _NAME):  # nobody took it
        _delete(_pointer_of_dying(capsule, _NAME))


class Gradient:
    """An array that is made on a GPU, for `from_dlpack` of other libraries: row-major."""

    def __init__(self, index, shape, dtype, stream):
        self.shape, self.dtype, self.strides = shape, dtype, row_major(shape)
        bits = DTYPES[dtype][1]
        self._memory = driver.Memory(index, bits // 8 * shape[0] * self.strides[0], stream)
        self.device, self.address = index, self._memory.address

    def __dlpack_device__(self):
        return CUDA, self.device

    def __dlpack__(self, *, stream=None, **_):
        """A capsule of it, ready for the stream; -1 for one that waits by itself."""
        if stream != -1:
            self._memory.hand_over(driver.DEFAULT_STREAM if stream is None else stream)
        code, bits = DTYPES[self.dtype]
        sizes = (c_int64 * len(self.shape))(*self.shape)
        strides = (c_int64 * len(self.shape))(*self.strides)
        managed = Managed(
            Tensor(self.address, Device(*self.__dlpack_device__()), len(self.shape),
                   DataType(code, bits, 1), sizes, strides, 0),
            None, ctypes.cast(_delete, c_void_p))
        address = ctypes.addressof(managed)
        _given[address] = managed, sizes, strides, self._memory
        return _new(address, _NAME, _destroy)

    def __repr__(self):
        return f"<stagger gradient, {self.dtype} {self.shape} on cuda:{self.device}>"


def expect_alike(arrays):
    """The device and the dtype of arrays by name, lse's apart. Raises ValueError if they differ, and
    Unsupported for numbers that the kernel does not take."""
    first = next(iter(arrays.values()))
    for name, array in arrays.items():
        dtype = "fp32" if name == "lse" else first.dtype
        if (array.device, array.dtype) != (first.device, dtype):
            raise ValueError(f"{name} is {array.dtype} on cuda:{array.device}; it is {dtype} on "
                             f"cuda:{first.device}")
    if first.dtype not in ("bf16", "fp16"):
        raise errors.Unsupported(f"q is {first.dtype}; the kernel is for bf16 and fp16")
    return first.device, first.dtype
