"""Deterministic attention for torch, on Hopper GPUs; on the CPU for checks.

    out = stagger.attention(q, k, v, mask="causal")
    out.backward(d_out)            # the same bits in every run

The forward pass is torch's own (cuDNN or flash), which leaves the logsumexp; the backward pass is
Stagger's, in the order of a table. What it does not do raises `stagger.Unsupported` with the
reason: it never falls back to something that is not deterministic.

Importing this makes the operators (torch.ops.stagger), by torch 2.4 or later; an older one is told
so by a call on GPU tensors, and has the CPU's attention. It also puts "STAGGER" into torch's
registry of flash attentions, if it has one, and activates nothing.
"""

import importlib

from ..integrations import sdpa

#: Names, and the module that each is in.
_PLACES = {"attention": "calls", "attention_backward": "calls", "ops_available": "calls",
           "prefetch": "calls", "prepare": "calls", "workspace_bytes": "calls", "check": "runtime"}


def __getattr__(name):
    if name in _PLACES:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


importlib.import_module(f"{__name__}.calls")
sdpa.register()

__all__ = list(_PLACES)
