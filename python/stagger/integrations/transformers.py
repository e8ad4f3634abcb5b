"""transformers, by name: a model's attention with Stagger's gradients.

    stagger.integrations.transformers.register()
    model = AutoModelForCausalLM.from_config(config, attn_implementation="stagger", dtype="bfloat16")

Two functions are registered under the name: the attention, and what makes its mask. Without the
second one transformers gives no mask at all to an attention that it does not know, padding or not.

Taken: causal masks, sliding windows (`sliding_window` W is the query and W - 1 tokens before it) and
masks of encoders, of sequences without padding, and grouped heads. As with flash_attention_2, a window
is the model's `sliding_window` argument. In training leave `attention_mask` out: whether a padding
mask has a zero is a question to the device.
Refused: padding, packed sequences, decoding with a cache and other masks that are tensors; dropout
in training, softcap, attention sinks, head masks, output_attentions; and what the kernel does not do
(fp32, head_dim other than 64 and 128). A refusal is an error; with register(fallback="math") masks
that are tensors go to SDPA's plain arithmetic, slow and steady.

Signatures: transformers 5 at 00c238bd (integrations/sdpa_attention.py) and 00c4411c
(masking_utils.py), docs/source/en/attention_interface.md.
"""

import inspect

import torch

from .. import errors
from ..masks import window
from . import needed, refuse_dropout

#: Arguments that some models give and Stagger does not do, and what they are.
REFUSED = {"softcap": "a softcap of scores", "s_aux": "attention sinks", "head_mask": "a head mask",
           "output_attentions": "attention weights as an output"}


def is_window(function):
    """Whether a mask function of transformers' is a causal window and nothing else: a conjunction
    of its causal function and its window."""
    parts = inspect.getclosurevars(function).nonlocals.get("mask_functions") \
        if inspect.isfunction(function) else None
    names = [getattr(part, "__qualname__", "") for part in parts or ()]
    return sorted(names) == ["causal_mask_function",
                             "sliding_window_overlay.<locals>.inner_mask"]


def _begins_together(kwargs):
    """Whether queries and keys are the same tokens: no cache, no offset."""
    position = kwargs.get("cache_position")  # which came before q_length and q_offset
    queries = kwargs.get("q_length", None if position is None else position.shape[0])
    offsets = kwargs.get("q_offset", 0), kwargs.get("kv_offset", 0)
    return queries == kwargs.get("kv_length") and \
        not any(isinstance(each, torch.Tensor) or each != 0 for each in offsets)


def mask_maker(sdpa_mask, causal, bidirectional):
    """The mask function: None where the attention knows the mask by itself, else sdpa_mask's
    tensor. `causal` and `bidirectional` are transformers' own functions of plain masks."""
    def make(*args, **kwargs):
        function = kwargs.get("mask_function", causal)
        if function is bidirectional:
            skip = kwargs.get("allow_is_bidirectional_skip", False)
        else:
            skip = kwargs.get("allow_is_causal_skip", True) and \
                (function is causal or is_window(function))
        if skip and not args and kwargs.get("attention_mask") is None and _begins_together(kwargs):
            return None
        return sdpa_mask(*args, **{**kwargs, "allow_is_causal_skip": False,
                                   "allow_is_bidirectional_skip": False})
    return make


def _mask_of(query, key, causal, sliding_window):
    """The mask that no tensor was made for."""
    if not causal:
        if sliding_window is not None:
            raise errors.Unsupported("a window in both directions: its mask is a tensor")
        return window()
    if query.shape[2] != key.shape[2]:
        raise errors.Unsupported(f"a causal mask of {query.shape[2]} queries and {key.shape[2]} "
                                 "keys without a tensor: no cache is taken")
    if sliding_window is None or sliding_window >= key.shape[2]:
        return window(causal=True)
    return window(causal=True, left=sliding_window - 1)


def _math(query, key, value, attention_mask, scaling):
    """Attention under a mask tensor, by products and a softmax: deterministic."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    group = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(group, 1) for each in (key, value))
    with sdpa_kernel(SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, scale=scaling)


def attention_function(fallback, arguments):
    """The attention as transformers calls it; `arguments` are those of stagger.attention."""
    def stagger_attention_forward(module, query, key, value, attention_mask, dropout=0.0,
                                  scaling=None, is_causal=None, sliding_window=None, **kwargs):
        import stagger
        refuse_dropout(dropout if module.training else 0.0)
        for name, what in REFUSED.items():
            given = kwargs.get(name)
            if given is not None and given is not False:
                raise errors.Unsupported(f"{what} ({name})")
        if attention_mask is not None:
            if fallback != "math":
                raise errors.Unsupported(
                    f"a mask tensor {tuple(attention_mask.shape)}: of padding, packed sequences or "
                    "a cache. Leave attention_mask out, or register(fallback=\"math\")")
            out = _math(query, key, value, attention_mask, scaling)
        else:
            causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
            mask = _mask_of(query, key, causal, sliding_window)
            out = stagger.attention(query, key, value, mask=mask, scale=scaling, layout="bhsd",
                                    **arguments)
        return out.transpose(1, 2).contiguous(), None
    return stagger_attention_forward


def register(name="stagger", *, fallback="error", schedule="auto", forward="auto",
             invariant=False, sm_margin=None):
    """Registers the attention and its mask function under a name. `fallback` is "error", or "math"
    for masks that are tensors; the rest is stagger.attention's."""
    if fallback not in ("error", "math"):
        raise errors.UsageError(f"fallback is \"error\" or \"math\", not {fallback!r}")
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import (AttentionMaskInterface, bidirectional_mask_function,
                                                causal_mask_function, sdpa_mask)
    except ImportError as error:
        raise needed("transformers 5", error) from error
    AttentionInterface.register(name, attention_function(
        fallback, {"schedule": schedule, "forward": forward, "invariant": invariant,
                   "sm_margin": sm_margin}))
    AttentionMaskInterface.register(name, mask_maker(
        sdpa_mask, causal_mask_function, bidirectional_mask_function))
