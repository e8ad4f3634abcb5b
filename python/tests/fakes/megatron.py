"""Of Megatron-LM d98e8a64: MegatronModule (megatron/core/transformer/module.py),
is_layer_window_attention (transformer/utils.py), AttnMaskType (transformer/enums.py), and the members
of TransformerConfig that DotProductAttention reads."""

import enum
import types

import torch


class MegatronModule(torch.nn.Module):
    def __init__(self, config, share_embeddings_and_output_weights=True):
        super().__init__()
        self.config = config


def is_layer_window_attention(window_size, window_attn_skip_freq, layer_number):
    if not window_size:
        return False
    if window_attn_skip_freq is None:
        return True
    if isinstance(window_attn_skip_freq, int):
        return layer_number % window_attn_skip_freq != 0
    return bool(window_attn_skip_freq[layer_number - 1])


class AttnMaskType(enum.Enum):
    padding = 1
    causal = 2
    no_mask = 3
    padding_causal = 4
    arbitrary = 5
    causal_bottom_right = 6


def config(**members):
    """A TransformerConfig with what attention looks at."""
    return types.SimpleNamespace(**{
        "attention_dropout": 0.0, "context_parallel_size": 1, "kv_channels": 8,
        "num_attention_heads": 4, "num_query_groups": 2, "apply_query_key_layer_scaling": False,
        "window_size": None, "window_attn_skip_freq": None, "softmax_type": "vanilla", **members})


def modules():
    """What the hook imports."""
    return {"megatron": types.ModuleType("megatron"),
            "megatron__core": types.ModuleType("megatron.core"),
            "megatron__core__transformer": types.ModuleType("megatron.core.transformer"),
            "megatron__core__transformer__module": types.SimpleNamespace(
                MegatronModule=MegatronModule),
            "megatron__core__transformer__utils": types.SimpleNamespace(
                is_layer_window_attention=is_layer_window_attention)}
