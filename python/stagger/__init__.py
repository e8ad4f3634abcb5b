"""Stagger: schedules for a deterministic attention backward pass.

Without torch: masks, tables, analyze, compare, simulate, optimize, verify on dicts and numpy
arrays, and the backward pass on CPU threads. With torch: `stagger.attention`, whose gradients have
the same bits in every run, on a Hopper GPU, and on the CPU for checks.
"""

import importlib
import importlib.util
import sys

from . import debug, errors, integrations
from ._lib import info
from ._version import __version__
from .analysis import (analyze, call, cancel, command, compare, masks, optimize, schedules, simulate,
                       verify)
from .errors import (AlignmentError, CaptureError, Deadlock, DeviceError, DigestMismatch,
                     FileError, InputError, InternalError, LimitError, NoDevice, ResidencyError,
                     StaggerError, Timeout, Unsupported, UsageError, WorkspaceError)
from .host import backward
from .locks import lock
from .masks import Mask, mask, window
from .plans import Plan, PlanCache, plans
from .tables import Table, table

#: What needs torch, which is imported when it is used.
_TORCH = ("attention", "attention_backward", "check", "prefetch", "prepare")


#: Modules that are imported when they are used.
_MODULES = ("machines", "numpy_ref", "torch")


def __getattr__(name):
    if name in _TORCH:
        return getattr(importlib.import_module(".torch", __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'stagger' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_TORCH, *_MODULES})


def _torch_is_here():
    if "torch" in sys.modules:
        return sys.modules["torch"] is not None
    return importlib.util.find_spec("torch") is not None


__all__ = ["AlignmentError", "CaptureError", "Deadlock", "DeviceError", "DigestMismatch",
           "FileError", "InputError", "InternalError", "LimitError", "Mask", "NoDevice", "Plan",
           "PlanCache", "ResidencyError", "StaggerError", "Table", "Timeout", "Unsupported",
           "UsageError", "WorkspaceError", "__version__", "analyze", "backward", "call", "cancel", "command",
           "compare", "debug", "errors", "info", "integrations", "lock", "mask", "masks",
           "optimize", "plans", "schedules", "simulate", "table", "verify", "window"]
if _torch_is_here():  # else `from stagger import *` would fail for them
    __all__ += _TORCH
