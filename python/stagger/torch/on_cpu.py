"""Attention on the CPU: torch's arithmetic forward, threads that follow a table backward.

For checks of a model, and of what it promises, where there is no GPU: it is slow, and any torch will
do.
"""

import math

import torch

from .. import errors, host
from . import forward as forwards
from . import shapes


def backward(d_out, q, k, v, out, lse, mask, schedule, scale, layout, invariant, timeout_ms=0):
    """dq, dk, dv of float32 tensors on the CPU."""
    shapes.check_outputs(q, out, d_out, lse, layout)
    # The executor's scale is 1 / sqrt(D): another one goes into q, and into what dq is the sum of.
    more = scale * math.sqrt(q.shape[-1])
    arrays = [each.detach().numpy() for each in (q * more, k, v, out, lse, d_out)]
    named = zip(("q", "k", "v", "out", "lse", "d_out"), arrays)
    plan = host.plan_of(mask=mask, schedule=schedule, invariant=invariant,
                        **host.sizes_of({name: each.shape for name, each in named}, layout))
    dq, dk, dv = map(torch.from_numpy, host.backward(
        *arrays, layout=layout, timeout_ms=timeout_ms, plan=plan))
    return dq * more, dk, dv


class Attention(torch.autograd.Function):
    """out and lse, and their gradients by backward()."""

    @staticmethod
    def forward(ctx, q, k, v, mask, schedule, scale, layout, invariant, timeout_ms):
        views = [shapes.view(each, layout) for each in (q, k, v)]
        with torch.autocast("cpu", enabled=False):
            out, lse = forwards.forward(*views, mask, scale, "reference")
        out = shapes.back(out, layout)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.arguments = mask, schedule, scale, layout, invariant, timeout_ms
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_out, _):
        return (*backward(d_out, *ctx.saved_tensors, *ctx.arguments), *(None,) * 6)


def attention(q, k, v, mask, schedule, scale, layout, how, invariant, _, timeout_ms):
    """out and lse of float32 tensors on the CPU, where no SMs are left free."""
    if how not in ("auto", "reference"):
        raise errors.Unsupported(f"forward {how} is a GPU's; on the CPU it is auto or reference")
    return Attention.apply(q, k, v, mask, schedule, scale, layout, invariant, timeout_ms)
