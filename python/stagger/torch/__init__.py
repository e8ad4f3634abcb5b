"""Deterministic attention for torch, on Hopper GPUs.

    out = stagger.attention(q, k, v, mask="causal")
    out.backward(d_out)            # the same bits in every run

The forward pass is torch's own (cuDNN or flash), which leaves the logsumexp; the backward pass is
Stagger's, in the order of a table. What it does not do raises `stagger.Unsupported` with the
reason: it never falls back to something that is not deterministic.
"""

from .attention import attention, attention_backward, prepare, workspace_bytes
from .runtime import check

__all__ = ["attention", "attention_backward", "check", "prepare", "workspace_bytes"]
