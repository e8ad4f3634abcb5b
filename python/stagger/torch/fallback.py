"""Where calls go that Stagger refuses, if `fallback="sdpa"` says that they may go elsewhere.

They go to torch's scaled_dot_product_attention, with a warning that has the reason. Where nothing but
what is deterministic is allowed (torch.use_deterministic_algorithms(True), or the variables of
`stagger.settings`), by its own products and softmax alone (SDPBackend.MATH): slow, and deterministic.
Not what asks for more than SDPA gives: the logsumexp, batch invariance, masks that cannot be spelled
as a tensor, queries that see nothing.
"""

import contextlib
import warnings

import torch

from .. import errors, settings
from . import forward as forwards
from . import runtime, shapes

FALLBACKS = ("error", "sdpa")


def expect_known(fallback):
    if fallback not in FALLBACKS:
        raise errors.UsageError(f"fallback is \"error\" or \"sdpa\", not {fallback!r}")


def strictness():
    """What forbids kernels that are not deterministic; "" if nothing does."""
    if torch.are_deterministic_algorithms_enabled():
        return "torch.use_deterministic_algorithms(True)"
    return settings.strictness()


def _seen(q, mask, seq_q, seq_kv):
    """The mask as SDPA takes it: a bool tensor. torch.compile does not trace what reads masks."""
    if shapes.compiles():
        from .operators import visible_operator
        return visible_operator(q, forwards.name_of(mask), seq_q, seq_kv)
    return forwards.visible(mask, seq_q, seq_kv, q.device)


@runtime.constant
def _told(why):
    """Warns; torch.compile lets it once, when it traces."""
    warnings.warn(f"torch's scaled_dot_product_attention instead of Stagger's: {why}", stacklevel=4)
    return True


def _ways():
    """SDPA's own choice, or what of it is deterministic."""
    if not strictness():
        return contextlib.nullcontext()
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError as error:
        raise errors.Unsupported(f"{strictness()} is asked for, and this torch cannot be told to take "
                                 "SDPA's deterministic way") from error
    return sdpa_kernel(SDPBackend.MATH)


def sdpa(why, q, k, v, mask, scale, layout):
    """What torch makes of a call that was refused with `why`. Raises Unsupported with that where SDPA
    cannot be asked the same."""
    attend = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
    if attend is None or q.dim() != 4 or layout not in shapes.LAYOUTS:
        raise errors.Unsupported(why)
    q, k, v = (shapes.view(each, layout).transpose(1, 2) for each in (q, k, v))
    rows, keys = q.shape[2], k.shape[2]
    group = q.shape[1] // k.shape[1]
    k, v = (each.repeat_interleave(group, 1) for each in (k, v))
    arguments = {"scale": scale}
    if mask == "causal" and rows == keys:
        arguments["is_causal"] = True
    elif mask != "full":
        if forwards.leaves_out_queries(mask, rows, keys):
            raise errors.Unsupported(why)
        arguments["attn_mask"] = _seen(q, mask, rows, keys)
    _told(why)
    with _ways():
        return shapes.back(attend(q, k, v, **arguments).transpose(1, 2), layout)
