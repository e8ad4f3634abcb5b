"""stagger.torch.operators, also by a torch that is too old to have operators like these: then its
functions alone, by torch 2.4's names for what they are registered with."""

import contextlib
import functools
import importlib
import types
from unittest import mock

import torch


class Library:
    """torch.library.Library, which knows nothing of what it is given."""

    def __init__(self, *_):
        pass

    def define(self, *_, **__):
        pass

    def impl(self, *_):
        pass


def _register(*_, **__):
    """torch.library.register_fake and register_autograd."""
    return lambda function: function


@functools.lru_cache(maxsize=1)
def imported():
    """The module."""
    if hasattr(torch.library, "register_autograd"):
        return importlib.import_module("stagger.torch.operators")
    operator = types.SimpleNamespace(default=None)
    with contextlib.ExitStack() as stack:
        for of, name, fake in (
                (torch.library, "Library", Library), (torch.library, "register_fake", _register),
                (torch.library, "register_autograd", _register),
                (torch, "Tag", types.SimpleNamespace(needs_fixed_stride_order=None)),
                (torch.ops, "stagger", types.SimpleNamespace(
                    forward=operator, backward=operator, visible=operator))):
            stack.enter_context(mock.patch.object(of, name, fake, create=True))
        return importlib.import_module("stagger.torch.operators")
