"""Of flash-attention 0251105a, hopper/flash_attn_interface.py: _flash_attn_backward, which mutates dq,
dk and dv, and an autograd function that calls it as FlashAttnFunc does."""

import types


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

    made = types.SimpleNamespace(_flash_attn_backward=_flash_attn_backward, backward=backward)
    return made
