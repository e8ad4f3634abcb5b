"""Megatron-LM: a core attention with Stagger's gradients.

    from stagger.integrations.megatron import StaggerDotProductAttention
    layer_spec.submodules.self_attention.submodules.core_attention = StaggerDotProductAttention

or, in a BackendSpecProvider of one's own, what core_attention() returns. Q, K and V are taken as they
lie, (s, b, h, d); tensor parallelism leaves whole heads to each rank, which is what this needs.

Taken: causal and full masks (AttnMaskType causal, no_mask), config.window_size where it applies,
grouped heads, softmax_scale, query-key layer scaling.
Refused when the layer is made: dropout, context parallelism, a softmax that is not "vanilla";
at a call: attention_bias, packed_seq_params, padding and arbitrary masks (AttnMaskType padding, ...),
causal with unequal lengths; and what the kernel does not do. A refusal is an error.
Megatron's --deterministic-mode needs NVTE_ALLOW_NONDETERMINISTIC_ALGO=0 and NCCL_ALGO beside this.

Signatures: Megatron-LM d98e8a64 (2026-08), megatron/core/transformer/dot_product_attention.py
(DotProductAttention) and models/backends.py (BackendSpecProvider.core_attention).
"""

import math

from .. import errors
from ..masks import window
from . import needed, refuse_dropout

try:
    from megatron.core.transformer.module import MegatronModule
    from megatron.core.transformer.utils import is_layer_window_attention
except ImportError as error:
    raise needed("Megatron-LM (megatron.core)", error) from error

#: Masks by their name in AttnMaskType: whether they are causal.
_MASKS = {"causal": True, "no_mask": False}


class StaggerDotProductAttention(MegatronModule):
    """core_attention of a layer; parameters and call are DotProductAttention's."""

    def __init__(self, config, layer_number, attn_mask_type, attention_type, attention_dropout=None,
                 softmax_scale=None, cp_comm_type=None, pg_collection=None):
        super().__init__(config=config)
        refuse_dropout(config.attention_dropout if attention_dropout is None else attention_dropout)
        if config.context_parallel_size != 1:
            raise errors.Unsupported(f"context_parallel_size is {config.context_parallel_size}; "
                                     "it is 1 here")
        softmax = getattr(config, "softmax_type", "vanilla")
        if softmax != "vanilla":
            raise errors.Unsupported(f"softmax_type is {softmax}; it is vanilla here")
        self.attn_mask_type = attn_mask_type
        self.scale = 1 / math.sqrt(config.kv_channels) if softmax_scale is None else softmax_scale
        if config.apply_query_key_layer_scaling:
            self.scale /= max(1, layer_number)
        windowed = is_layer_window_attention(config.window_size, config.window_attn_skip_freq,
                                             layer_number)
        self.window = config.window_size if windowed else (None, None)

    def _mask(self, query, key, attn_mask_type):
        """A mask that needs no tensor: of causal attention Megatron's is none, whatever it holds."""
        name = (self.attn_mask_type if attn_mask_type is None else attn_mask_type).name
        if name not in _MASKS:
            raise errors.Unsupported(f"AttnMaskType {name}: it is {' or '.join(_MASKS)} here")
        if _MASKS[name] and query.shape[0] != key.shape[0]:
            raise errors.Unsupported(f"causal with {query.shape[0]} queries and {key.shape[0]} keys")
        return window(_MASKS[name], *self.window)

    def forward(self, query, key, value, attention_mask, attn_mask_type=None, attention_bias=None,
                packed_seq_params=None):
        import stagger
        if attention_bias is not None:
            raise errors.Unsupported("attention_bias")
        if packed_seq_params is not None:
            raise errors.Unsupported("packed_seq_params: their lengths lie on the device")
        mask = self._mask(query, key, attn_mask_type)
        if attention_mask is not None and mask.text == "full":
            raise errors.Unsupported("a mask tensor beside AttnMaskType no_mask")
        out = stagger.attention(query, key, value, mask=mask, scale=self.scale, layout="sbhd")
        return out.reshape(*out.shape[:2], -1)
