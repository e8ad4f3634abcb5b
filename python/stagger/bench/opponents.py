"""Whose backward passes are timed: one row each, with what it needs and what it does not do.

Each has its own forward pass, whose autograd graph is kept, and is timed as
torch.autograd.grad(out, (q, k, v), d_out): what a training step runs, allocations included.
"""

import dataclasses
from typing import Callable

from .. import errors

STAGGER = "stagger"


@dataclasses.dataclass(frozen=True)
class Opponent:
    """A backward pass by name. attend(q, k, v, case) is its forward pass on (B, S, H, D)."""

    name: str
    deterministic: bool
    attend: Callable
    missing: Callable = lambda: None  #: why it is not here at all; None if it is
    refuses: Callable = lambda case: None  #: why it does not do a case; None if it does
    strict: bool = False  #: under torch.use_deterministic_algorithms(True)


def _stagger(q, k, v, case):
    from ..torch import attention
    return attention(q, k, v, mask=case.mask)


def _sdpa(backend):
    def attend(q, k, v, case):
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        with sdpa_kernel(getattr(SDPBackend, backend)):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=case.causal,
                enable_gqa=case.heads_kv != case.heads).transpose(1, 2)
    return attend


def _no_window(case):
    return "SDPA has no windows" if case.window else None


def _no_window_or_group(case):
    return _no_window(case) or ("heads do not share K and V there" if case.heads_kv != case.heads
                                else None)


def _fa3(deterministic):
    def attend(q, k, v, case):
        import flash_attn_interface
        window = (case.window - 1, 0) if case.window else (-1, -1)
        out = flash_attn_interface.flash_attn_func(q, k, v, causal=case.causal, window_size=window,
                                                   deterministic=deterministic)
        return out[0] if isinstance(out, tuple) else out
    return attend


def _no_fa3():
    import importlib.util
    if importlib.util.find_spec("flash_attn_interface") is None:
        return "FlashAttention-3 (flash_attn_interface) is not installed"
    return None


OPPONENTS = (
    Opponent(STAGGER, True, _stagger),
    Opponent("torch-flash-det", True, _sdpa("FLASH_ATTENTION"), refuses=_no_window, strict=True),
    Opponent("torch-flash", False, _sdpa("FLASH_ATTENTION"), refuses=_no_window),
    Opponent("cudnn", False, _sdpa("CUDNN_ATTENTION"), refuses=_no_window_or_group),
    Opponent("fa3-det", True, _fa3(True), missing=_no_fa3),
    Opponent("fa3", False, _fa3(False), missing=_no_fa3),
)


def by_schedule(schedule, forward="flash"):
    """Ours by a schedule, behind a forward pass of torch's."""
    from ..torch import attention

    def attend(q, k, v, case):
        return attention(q, k, v, mask=case.mask, schedule=schedule, forward=forward)
    return Opponent(f"{STAGGER}:{schedule}", True, attend, strict=True)


def cudnn_shared():
    """cuDNN where heads share K and V: they are repeated first."""
    alone = _sdpa("CUDNN_ATTENTION")

    def attend(q, k, v, case):
        k, v = (repeated(each, case) for each in (k, v))
        return alone(q, k, v, dataclasses.replace(case, heads_kv=case.heads))
    return Opponent("cudnn", False, attend, refuses=_no_window)


def repeated(x, case):
    """K or V (B, S, Hk, D) with one head for each query head."""
    if case.heads_kv == case.heads:
        return x
    group = case.heads // case.heads_kv
    return x.unsqueeze(3).expand(-1, -1, -1, group, -1).flatten(2, 3)


def cudnn_then(schedule):
    """cuDNN's forward pass, also where heads share K and V, and ours backward."""
    function = _cudnn_then_ours()

    def attend(q, k, v, case):
        return function.apply(q, k, v, case, schedule)
    return Opponent(f"{STAGGER}:{schedule}+cudnn", True, attend, refuses=_no_window, strict=True)


def _cudnn_then_ours():
    import torch
    from ..torch import attention_backward
    from ..torch.forward import forward

    class CudnnThenOurs(torch.autograd.Function):

        @staticmethod
        def forward(ctx, q, k, v, case, schedule):
            ctx.case, ctx.schedule = case, schedule
            out, lse = forward(q, repeated(k, case), repeated(v, case), case.mask,
                               case.dim ** -0.5, "cudnn")
            ctx.save_for_backward(q, k, v, out, lse)
            return out

        @staticmethod
        def backward(ctx, d_out):
            gradients = attention_backward(d_out, *ctx.saved_tensors, mask=ctx.case.mask,
                                           schedule=ctx.schedule)
            return (*gradients, None, None)

    return CudnnThenOurs


def named(names):
    """Opponents by name, in the order of OPPONENTS; all of them for none."""
    known = {each.name: each for each in OPPONENTS}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise errors.UsageError(f"no opponent {unknown[0]}; there are {', '.join(known)}")
    return [each for each in OPPONENTS if not names or each.name in names]
