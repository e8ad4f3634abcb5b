"""An installed FlashAttention-3, whose deterministic backward pass becomes Stagger's, by name.

    stagger.integrations.fa3.patch()     # before TransformerEngine, which takes names, is imported
    flash_attn_interface.flash_attn_func(q, k, v, causal=True, deterministic=True)

FA3's `_flash_attn_backward` in `flash_attn_interface` is replaced: its forward pass stays, and so
does every call with deterministic=False. Fragile, as it depends on a private name: its parameters
are compared with those below, and the patch refuses where they differ.

Refused of deterministic calls: softcap, packed or partly used sequences (cu_seqlens, seqused), and
what the kernel does not do. A refusal is an error; `patch(fallback="fa3")` gives those calls to FA3.
FA3's registered autograd formula, which torch.compile takes, passes deterministic=False whatever
was asked for: compiled calls are FA3's.

Signature: flash-attention 0251105a (2026-08), hopper/flash_attn_interface.py. lse is float32
(B, H, S), natural, minus infinity for a query that sees nothing.
"""

import inspect
import warnings

from .. import errors
from ..masks import window
from . import needed

#: Parameters of the function that is replaced, in order.
PARAMETERS = ("dout", "q", "k", "v", "out", "softmax_lse", "cu_seqlens_q", "cu_seqlens_k", "sequed_q",
              "sequed_k", "max_seqlen_q", "max_seqlen_k", "dq", "dk", "dv", "softmax_scale",
              "is_causal", "window_size_left", "window_size_right", "softcap", "deterministic",
              "sm_margin")


def _module():
    try:
        import flash_attn_interface
    except ImportError as error:
        raise needed("FlashAttention-3 (flash_attn_interface)", error) from error
    return flash_attn_interface


def parameters_of(function):
    """A function's parameters, by name; of an operator's, those of what it was made of."""
    return inspect.signature(getattr(function, "_init_fn", function)).parameters


def _gradients(call):
    """Stagger's gradients of a call of FA3's, written to where it wants them."""
    if call["softcap"]:
        raise errors.Unsupported(f"softcap is {call['softcap']}; it is 0 here")
    for name in ("cu_seqlens_q", "cu_seqlens_k", "sequed_q", "sequed_k"):
        if call[name] is not None:
            raise errors.Unsupported(f"{name}: lengths lie on the device; call stagger.attention "
                                     "with a document mask of them")
    import stagger
    mask = window(call["is_causal"], call["window_size_left"], call["window_size_right"])
    gradients = stagger.attention_backward(
        call["dout"], call["q"], call["k"], call["v"], call["out"], call["softmax_lse"], mask=mask,
        scale=call["softmax_scale"], sm_margin=call["sm_margin"] or None)
    for name, gradient in zip(("dq", "dk", "dv"), gradients):
        if call[name] is not None:
            call[name].copy_(gradient)


def patch(fallback="error"):
    """Replaces FA3's deterministic backward pass and returns a function that puts it back.
    `fallback` is "error", or "fa3" for calls that Stagger refuses."""
    if fallback not in ("error", "fa3"):
        raise errors.UsageError(f"fallback is \"error\" or \"fa3\", not {fallback!r}")
    module = _module()
    original = module._flash_attn_backward
    if tuple(parameters_of(original)) != PARAMETERS:
        raise errors.Unsupported(
            "this FlashAttention-3 has another _flash_attn_backward, with the parameters "
            f"{', '.join(parameters_of(original))}")
    signature = inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                                   for name in PARAMETERS])
    defaults = {"softcap": 0.0, "deterministic": False, "sm_margin": 0, "is_causal": False,
                "window_size_left": -1, "window_size_right": -1}

    def backward(*args, **kwargs):
        given = signature.bind_partial(*args, **kwargs).arguments
        call = {name: given.get(name, defaults.get(name)) for name in PARAMETERS}
        if not call["deterministic"]:
            return original(*args, **kwargs)
        try:
            _gradients(call)
        except errors.Unsupported as error:
            if fallback == "error":
                raise
            warnings.warn(f"FlashAttention-3's backward pass instead of Stagger's: {error}",
                          stacklevel=2)
            return original(*args, **kwargs)
        # FA3 returns the sums of dO and O, which none of its callers look at.
        return call["softmax_lse"].new_empty(0)

    def restore():
        module._flash_attn_backward = original

    module._flash_attn_backward = backward
    return restore
