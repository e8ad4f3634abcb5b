"""FlashAttention's function by its own words, without FlashAttention.

    from stagger.integrations.flash_attn import flash_attn_func
    out = flash_attn_func(q, k, v, causal=True, window_size=(511, 0))     # (B, S, H, D)

All but q, k and v go by name, as FlashAttention-2 and -3 have them in two orders. `deterministic` may
be either: the gradients always are. Refused: what has no meaning here (dropout_p, softcap,
alibi_slopes, qv, descale factors, attention_chunk) unless it is at its default, and what the kernel
does not do. A refusal is an error.

Signatures: flash-attention 0251105a (2026-08), hopper/flash_attn_interface.py and
flash_attn/flash_attn_interface.py.
"""

from .. import errors
from ..masks import window

#: Arguments that are taken at one value alone, and it.
_NEUTRAL = {"dropout_p": 0.0, "softcap": 0.0, "alibi_slopes": None, "qv": None, "q_descale": None,
            "k_descale": None, "v_descale": None, "attention_chunk": 0}
#: Arguments that say how, not what.
_HINTS = ("deterministic", "num_splits", "pack_gqa")


def flash_attn_func(q, k, v, *, softmax_scale=None, causal=False, window_size=(-1, -1), sm_margin=0,
                    return_attn_probs=False, **others):
    """Attention on q (B, Sq, Hq, D) and k, v (B, Skv, Hkv, D); with return_attn_probs (out, lse)."""
    for name, value in others.items():
        if name in _HINTS:
            continue
        if name not in _NEUTRAL:
            raise TypeError(f"flash_attn_func has no argument {name!r}")
        neutral = _NEUTRAL[name]
        if value is not neutral and (neutral is None or value != neutral):
            raise errors.Unsupported(f"{name} is given; it is {neutral} here")
    import stagger
    return stagger.attention(q, k, v, mask=window(causal, *window_size), scale=softmax_scale,
                             sm_margin=sm_margin or None, return_lse=return_attn_probs)
