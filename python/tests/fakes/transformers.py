"""Of transformers 5: AttentionInterface and AttentionMaskInterface (utils/generic.py,
modeling_utils.py), and of masking_utils.py at 00c4411c the mask functions and sdpa_mask, whose call
`masked` repeats as create_causal_mask and create_sliding_window_causal_mask make it."""

import types

import torch


class _Interface:
    _global_mapping = {}

    @classmethod
    def register(cls, key, value):
        cls._global_mapping.update({key: value})


def causal_mask_function(batch_idx, head_idx, q_idx, kv_idx):
    return kv_idx <= q_idx


def bidirectional_mask_function(batch_idx, head_idx, q_idx, kv_idx):
    return q_idx >= 0


def sliding_window_overlay(sliding_window):
    def inner_mask(batch_idx, head_idx, q_idx, kv_idx):
        return kv_idx > q_idx - sliding_window
    return inner_mask


def chunked_overlay(chunk_size):
    def inner_mask(batch_idx, head_idx, q_idx, kv_idx):
        return kv_idx // chunk_size == q_idx // chunk_size
    return inner_mask


def and_masks(*mask_functions):
    def and_mask(batch_idx, head_idx, q_idx, kv_idx):
        result = q_idx.new_ones((), dtype=torch.bool)
        for mask in mask_functions:
            result = result & mask(batch_idx, head_idx, q_idx, kv_idx)
        return result
    return and_mask


def sliding_window_causal_mask_function(sliding_window):
    return and_masks(sliding_window_overlay(sliding_window), causal_mask_function)


def chunked_causal_mask_function(chunk_size):
    return and_masks(chunked_overlay(chunk_size), causal_mask_function)


def sdpa_mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0,
              mask_function=causal_mask_function, attention_mask=None, local_size=None,
              allow_is_causal_skip=True, allow_is_bidirectional_skip=False, allow_torch_fix=True,
              use_vmap=False, device="cpu", **kwargs):
    whole = attention_mask is None or bool(attention_mask.all())
    if allow_is_causal_skip and whole and q_length in (1, kv_length) and \
            (local_size is None or kv_length < local_size):
        return None
    if allow_is_bidirectional_skip and whole and (local_size is None or kv_length < local_size):
        return None
    queries = torch.arange(q_length)[None, None, :, None] + q_offset
    keys = torch.arange(kv_length)[None, None, None, :] + kv_offset
    mask = mask_function(0, 0, queries, keys)
    if attention_mask is not None:
        mask = mask & attention_mask[:, None, None, :].bool()
    return mask.expand(batch_size, 1, q_length, kv_length)


def module():
    """transformers and transformers.masking_utils, with fresh interfaces."""
    attention = type("AttentionInterface", (_Interface,), {"_global_mapping": {}})
    masks = type("AttentionMaskInterface", (_Interface,), {"_global_mapping": {}})
    utils = types.SimpleNamespace(
        AttentionMaskInterface=masks, bidirectional_mask_function=bidirectional_mask_function,
        causal_mask_function=causal_mask_function, sdpa_mask=sdpa_mask)
    return types.SimpleNamespace(AttentionInterface=attention, masking_utils=utils)


def masked(interface, length, function=causal_mask_function, attention_mask=None, cached=0,
           offset=None, skip=True, **kwargs):
    """What a model gets as its mask from the interface's function."""
    return interface(batch_size=2, q_length=length, kv_length=length + cached,
                     q_offset=cached if offset is None else offset, kv_offset=0, mask_function=function, attention_mask=attention_mask,
                     allow_is_causal_skip=skip, dtype=torch.float32, config=None, use_vmap=False,
                     device="cpu", **kwargs)
