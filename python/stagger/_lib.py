"""libstagger by ctypes: the structs and functions of stagger.h, found and checked once.

The library is that of STAGGER_LIBRARY, or the one in this package, or that of a build in the
checkout that this file is in.
"""

import ctypes
import os
import pathlib
import threading
from ctypes import (POINTER, Structure, byref, c_char, c_char_p, c_float, c_int32, c_int64,
                    c_uint32, c_uint64, c_void_p)

from . import errors
from ._version import __version__

ABI = 1
NAME = "libstagger.so.1"
BF16, FP16, FP32 = 1, 2, 3
DTYPES = {"bf16": BF16, "fp16": FP16, "fp32": FP32}
COOPERATIVE, ELASTIC = 1, 2
NO_VERIFY, INVARIANT = 1, 2


class Sized(Structure):
    """A struct that begins with its size."""

    def __init__(self, *args, **members):
        super().__init__(*args, **members)
        self.size = ctypes.sizeof(self)


class Info(Sized):
    _fields_ = [("size", c_uint32), ("abi", c_uint32), ("numerics", c_uint32),
                ("version", c_char * 32), ("commit", c_char * 16), ("has_cuda", c_int32),
                ("device", c_int32), ("sms", c_int32), ("cc_major", c_int32),
                ("cc_minor", c_int32), ("driver", c_int32), ("usable", c_int32),
                ("why_not", c_char * 160)]


class Problem(Sized):
    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("batch", c_int32),
                ("heads_q", c_int32), ("heads_kv", c_int32), ("head_dim", c_int32),
                ("dtype", c_int32), ("sms", c_int32), ("tile_q", c_int32), ("tile_kv", c_int32),
                ("launch", c_int32), ("seq_q", c_int64), ("seq_kv", c_int64), ("mask", c_char_p),
                ("schedule", c_char_p), ("table", c_char_p), ("machine", c_char_p),
                ("span", c_int32)]


class PlanInfo(Sized):
    _fields_ = [("size", c_uint32), ("tile_q", c_int32), ("tile_kv", c_int32),
                ("lanes", c_int32), ("ctas", c_int32), ("launch", c_int32),
                ("resident_needed", c_int32), ("invariant", c_int32), ("tasks", c_int64),
                ("order_digest", c_uint64), ("table_digest", c_uint64),
                ("predicted_ns", c_int64), ("schedule", c_char * 64), ("mask", c_char * 256),
                ("device_bytes", c_uint64), ("workspace_bytes", c_uint64),
                ("host_bytes", c_uint64), ("span", c_int32)]


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("stride", c_int64 * 3)]


class Status(Structure):
    _fields_ = [("code", c_uint32), ("device", c_uint32), ("call_id", c_uint64),
                ("order_digest", c_uint64), ("stopped_ns", c_uint64), ("count", c_uint32),
                ("pad", c_uint32 * 7)]


class Call(Sized):
    _fields_ = [("size", c_uint32), ("mode", c_int32), ("scale", c_float), ("q", Tensor),
                ("k", Tensor), ("v", Tensor), ("out", Tensor), ("d_out", Tensor), ("dq", Tensor),
                ("dk", Tensor), ("dv", Tensor), ("lse", Tensor), ("workspace", c_void_p),
                ("workspace_bytes", c_uint64), ("device_plan", c_void_p), ("stream", c_void_p),
                ("timeout_ms", c_uint32), ("status", POINTER(Status)), ("call_id", c_uint64)]


_PROTOTYPES = {
    "stagger_query": [POINTER(Info)],
    "stagger_plan_create": [POINTER(Problem), POINTER(c_void_p)],
    "stagger_plan_describe": [c_void_p, POINTER(PlanInfo)],
    "stagger_plan_table": [c_void_p, c_void_p, c_void_p],
    "stagger_plan_json": [c_void_p, POINTER(c_void_p)],
    "stagger_plan_machine": [c_void_p, POINTER(c_void_p)],
    "stagger_plan_destroy": [c_void_p],
    "stagger_plan_upload": [c_void_p, c_void_p, c_uint64, c_void_p],
    "stagger_backward": [c_void_p, POINTER(Call)],
    "stagger_backward_host": [c_void_p, POINTER(Call), c_int32, c_int32],
    "stagger_status_new": [POINTER(POINTER(Status))],
    "stagger_status_free": [POINTER(Status)],
    "stagger_json": [c_char_p, POINTER(c_void_p)],
    "stagger_free": [c_void_p],
    "stagger_last_error": [],
}
_RESULTS = {"stagger_plan_destroy": None, "stagger_status_free": None, "stagger_free": None,
            "stagger_last_error": c_char_p}

_lock = threading.Lock()
_library = None


def _paths():
    named = os.environ.get("STAGGER_LIBRARY")
    if named:
        return [pathlib.Path(named)]
    here = pathlib.Path(__file__).resolve().parent
    build = here.parent.parent / "build"
    return [here / NAME] + [build / preset / NAME for preset in ("release", "cuda", "dev")]


def _load():
    path = next((each for each in _paths() if each.exists()), None)
    if path is None:
        raise ImportError(
            f"{NAME} is not here ({', '.join(map(str, _paths()))}): install the package with "
            "`pip install --no-build-isolation ./python`, build it with `scripts/build`, or say "
            "where it is in STAGGER_LIBRARY")
    try:
        library = ctypes.CDLL(str(path.resolve()))  # a bare name would be looked for elsewhere
        _expect_version(library, path)
        for name, arguments in _PROTOTYPES.items():
            function = getattr(library, name)
            function.argtypes = arguments
            function.restype = _RESULTS.get(name, c_int32)
    except (OSError, AttributeError) as error:
        raise ImportError(f"{path} is not the library of stagger {__version__}: {error}. Build it with "
                          "`scripts/build`, and say where it is in STAGGER_LIBRARY") from error
    return library


def _expect_version(library, path):
    """Raises ImportError for a library of another version, which may lack functions; AttributeError for
    one that cannot be asked."""
    library.stagger_query.argtypes = _PROTOTYPES["stagger_query"]
    info = Info()
    library.stagger_query(byref(info))
    version = text_of(info.version)
    if info.abi != ABI or version != __version__:
        raise ImportError(f"{path} is version {version} with interface {info.abi}; this package "
                          f"is version {__version__} and knows interface {ABI}: build the library of this "
                          "version with `scripts/build`, and say where it is in STAGGER_LIBRARY")


def library():
    """The library, loaded at the first call. Raises ImportError, which says what to do."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _load()
    return _library


def backward_of_addresses():
    """stagger_backward for callers that have a call as bytes: (plan, address) -> code."""
    prototype = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p)
    return prototype(("stagger_backward", library()))


def check(code):
    """Raises the error of a code that is not 0."""
    if code:
        text = text_of(library().stagger_last_error())
        raise errors.BY_CODE.get(code, errors.StaggerError)(text)


def text_of(bytes):
    """A text of the library's, which may be cut within a letter."""
    return bytes.decode(errors="replace")


def taken(pointer):
    """The text that a function left, which is freed."""
    try:
        return ctypes.string_at(pointer.value).decode()
    finally:
        library().stagger_free(pointer)


def expect_gpu():
    """What the library can use. Raises NoDevice, with the reason, where its kernel cannot run."""
    known = info()
    if not known["usable"]:
        raise errors.NoDevice(known["why_not"])
    return known


def info():
    """What the library is and can use, as a dict."""
    known = Info()
    check(library().stagger_query(byref(known)))
    values = {name: getattr(known, name) for name, _ in Info._fields_ if name != "size"}
    return {name: text_of(value) if isinstance(value, bytes) else value
            for name, value in values.items()}
