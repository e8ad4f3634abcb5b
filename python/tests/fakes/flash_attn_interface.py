"""Of flash-attention 0251105a, hopper/flash_attn_interface.py: _flash_attn_backward, which mutates dq,
dk and dv, and an autograd function that calls it as FlashAttnFunc does; and _flash_attn_forward, with
some of its parameters that come between."""

import types

import torch

from . import attention


def module(log):
    """flash_attn_interface; `log` gets the calls of its own backward pass."""
    def _flash_attn_backward(dout, q, k, v, out, softmax_lse, cu_seqlens_q=None, cu_seqlens_k=None,
                             sequed_q=None, sequed_k=None, max_seqlen_q=None, max_seqlen_k=None,
                             dq=None, dk=None, dv=None, softmax_scale=None, is_causal=False,
                             window_size_left=-1, window_size_right=-1, softcap=0.0,
                             deterministic=False, sm_margin=0):
        log.append({"deterministic": deterministic, "softcap": softcap})
        for gradient in (dq, dk, dv):
            gradient.zero_()
        return softmax_lse

    def backward(dout, q, k, v, out, lse, causal=True, window=(-1, -1), softcap=0.0,
                 deterministic=True, packed=None, sm_margin=0):
        """Gradients, by the name in the module, as FlashAttnFunc.backward calls it."""
        dq, dk, dv = (each.new_full(each.shape, float("nan")) for each in (q, k, v))
        made._flash_attn_backward(
            dout, q, k, v, out, lse, packed, packed, None, None, None, None, dq, dk, dv,
            q.shape[-1] ** -0.5, causal, window[0], window[1], softcap, deterministic, sm_margin)
        return dq, dk, dv

    def _flash_attn_forward(q, k, v, k_new=None, v_new=None, out_=None, softmax_scale=None,
                            causal=False, window_size_left=-1, window_size_right=-1, softcap=0.0,
                            num_splits=1, pack_gqa=None, sm_margin=0):
        log.append({"num_splits": num_splits, "sm_margin": sm_margin, "causal": causal,
                    "window": (window_size_left, window_size_right)})
        kind = "causal" if causal else f"sliding:left={window_size_left},right={window_size_right}"
        seen = attention.visible(kind, q.shape[1], k.shape[1])
        group = q.shape[2] // k.shape[2]
        keys, values = (each.repeat_interleave(group, 2) for each in (k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, keys) * softmax_scale
        scores = scores.masked_fill(~seen, float("-inf"))
        out = torch.einsum("bhqk,bkhd->bqhd", torch.softmax(scores, -1), values)
        return out, torch.logsumexp(scores, -1), None, None

    made = types.SimpleNamespace(_flash_attn_backward=_flash_attn_backward, backward=backward,
                                 _flash_attn_forward=_flash_attn_forward)
    return made
