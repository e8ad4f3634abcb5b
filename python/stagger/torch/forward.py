"""Forward passes of torch that leave the logsumexp, on views (B, S, H, D).

cudnn      fastest on Hopper: full and causal masks of equal lengths, no shared heads
flash      full, causal and sliding masks, documents of equal lengths of queries and keys, shared
           heads
fa3        an installed FlashAttention-3: full, causal and sliding masks, shared heads; by name alone
reference  any mask that can be spelled, in fp32 by query blocks: slow, for checks
"""

import functools
import json
import math

import torch
from torch._subclasses import FakeTensor

from .. import errors, mask_names, once
from ..masks import mask as as_mask
from . import runtime, schemas, shapes

#: Ways that this torch does not have as they are called, and why.
CLOSED = schemas.closed_ways()

#: Whether flash's bits can be had that do not depend on the batch, however few rows there are.
UNSPLIT = schemas.flash_counts_splits()
#: Blocks that CUDA has in a grid's second and third dimension, where torch's flash has batch and heads.
MOST_BLOCKS = 65_535

_NAMES = ("cudnn", "flash", "fa3", "reference")


def _window(mask):
    """(causal, left, right) as flash takes them; None if a mask is no window."""
    if _is_composed(mask):
        return None
    kind, _, rest = mask.partition(":")
    keys = dict(pair.split("=", 1) for pair in rest.split(",") if "=" in pair)
    if kind == "full" and not keys:
        return False, None, None
    if kind == "causal" and not keys:
        return True, None, None
    if kind == "sliding" and set(keys) <= {"left", "right"}:
        left, right = _count(keys.get("left", -1)), _count(keys.get("right", -1))
        return False, left if left >= 0 else None, right if right >= 0 else None
    return None


def flash_splits(batch, heads, seq_q, sms):
    """Whether flash's forward pass cuts keys into pieces to fill the SMs: then its bits depend on
    the batch. As FlashAttention-2 decides it, to be on the safe side."""
    return batch * heads * -(-seq_q // 64) < 0.8 * 2 * sms


def way(mask, seq_q, seq_kv, heads, heads_kv, how, invariant=False):
    """Which forward pass takes a problem: what `how` says, or for "auto" the fastest."""
    window = _window(mask)
    plain = window is not None and window[1] is None and window[2] is None
    cudnn = plain and seq_q == seq_kv and heads == heads_kv
    flash = window is not None or (_documents(mask) is not None and seq_q == seq_kv)
    if how == "auto":
        if cudnn and not invariant and "cudnn" not in CLOSED:
            return "cudnn"
        return "flash" if flash and "flash" not in CLOSED else "reference"
    if how not in _NAMES:
        raise errors.UsageError(f"forward is auto, {', '.join(_NAMES[:-1])} or {_NAMES[-1]}, not "
                                f"{how!r}")
    if how in CLOSED:
        raise errors.Unsupported(f"forward {how}: {CLOSED[how]}")
    if how == "cudnn" and not cudnn:
        raise errors.Unsupported("cudnn is for full and causal masks of equal lengths, without "
                                 "shared heads")
    if how == "flash" and not flash:
        raise errors.Unsupported(f"flash has no {mask_names.shown(mask)} mask")
    if how == "fa3" and window is None:
        raise errors.Unsupported(f"fa3 has no {mask_names.shown(mask)} mask here")
    return how


def _expect_blocks(q, how):
    """Raises Unsupported where a forward pass of torch's would have a launch fail, after which the
    process has no device any more."""
    if how != "reference" and max(q.shape[0], q.shape[2]) > MOST_BLOCKS:
        raise errors.Unsupported(
            f"{how}'s forward pass is for up to {MOST_BLOCKS} batch entries and heads, not "
            f"{q.shape[0]} and {q.shape[2]}: take forward reference, or bring one of your own "
            "(stagger.attention_backward)")


def forward(q, k, v, mask, scale, how, invariant=False, sms=0, sm_margin=0):
    """out (B, Sq, Hq, D) in q's dtype and lse fp32 (B, Hq, Sq), natural logarithm. `invariant`:
    with bits that do not depend on the batch, on a device of `sms` SMs. sm_margin: SMs left free, by
    fa3."""
    how = way(mask, q.shape[1], k.shape[1], q.shape[2], k.shape[2], how, invariant)
    _expect_blocks(q, how)
    if invariant and how == "cudnn":
        raise errors.Unsupported("nothing is known of cuDNN's bits across batches: invariant asks "
                                 "for forward flash or reference")
    unsplit = invariant and UNSPLIT
    if invariant and how == "flash" and not unsplit and flash_splits(
            q.shape[0], q.shape[2], q.shape[1], sms):
        raise errors.Unsupported(
            f"flash's forward pass may split keys of so few rows ({q.shape[0]} x {q.shape[2]} x "
            f"{q.shape[1]} on {sms} SMs), and its bits then depend on the batch: bring a forward "
            "pass of your own (stagger.attention_backward), or take forward reference")
    if how == "flash" and (unsplit or _window(mask) is None):
        return _flash_packed(q, k, v, mask, scale, {"num_splits": 1} if unsplit else {})
    if how == "fa3":
        return _fa3(q, k, v, mask, scale, sm_margin)
    return {"cudnn": _cudnn, "flash": _flash, "reference": _reference}[how](q, k, v, mask, scale)


def _cudnn(q, k, v, mask, scale):
    causal = _window(mask)[0]
    results = torch.ops.aten._scaled_dot_product_cudnn_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), None, True, 0.0, causal, False,
        scale=scale)
    out, lse = results[0], results[1]
    return out.transpose(1, 2), lse.reshape(lse.shape[0], lse.shape[1], -1)


def _flash(q, k, v, mask, scale):
    causal, left, right = _window(mask)
    out, lse = torch.ops.aten._flash_attention_forward(
        q, k, v, None, None, q.shape[1], k.shape[1], 0.0, causal, False, scale=scale,
        window_size_left=left, window_size_right=right)[:2]
    return out, lse


def _fa3(q, k, v, mask, scale, sm_margin):
    """FlashAttention-3's, without splitting keys: its bits do not depend on the batch."""
    function, why = schemas.fa3_forward()
    if function is None:
        raise errors.Unsupported(f"forward fa3: {why}")
    if isinstance(q, FakeTensor):
        return (torch.empty_like(q, memory_format=torch.contiguous_format),
                q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32))
    causal, left, right = _window(mask)
    out, lse = function(
        q, k, v, softmax_scale=scale, causal=causal, window_size_left=-1 if left is None else left,
        window_size_right=-1 if right is None else right, num_splits=1, sm_margin=sm_margin)[:2]
    return out, lse


def _documents(mask):
    """(lengths, causal) of packed documents; None if a mask is none of those."""
    if _is_composed(mask):
        return None
    kind, keys = _described(mask)
    if kind != "document" or not set(keys) <= {"lengths", "causal"}:
        return None
    return tuple(keys["lengths"]), bool(keys.get("causal", False))


@functools.lru_cache(maxsize=64)
def _ends(lengths, rows, device):
    """Where the sequences of some rows end, as flash takes it: int32, from 0. The copy to the
    device is waited for, once for these lengths."""
    ends = [0]
    for length in lengths * rows:
        ends.append(ends[-1] + length)
    return torch.tensor(ends, dtype=torch.int32, device=device)


def _sequences(mask, rows, keys):
    """(lengths of queries, of keys, causal, what else flash is told) of a batch entry's sequences: its
    documents, or itself with a window."""
    window = _window(mask)
    if window is not None:
        causal, left, right = window
        return (rows,), (keys,), causal, {"window_size_left": left, "window_size_right": right}
    lengths, causal = _documents(mask)
    if sum(lengths) != rows:
        raise errors.InputError(f"the documents of {mask_names.shown(mask)} have {sum(lengths)} tokens, not "
                                f"{rows}")
    return lengths, lengths, causal, {}


def _flash_packed(q, k, v, mask, scale, more):
    """flash on the rows of a batch one behind the other, in sequences."""
    batch, rows, heads, _ = q.shape
    queries, keys, causal, window = _sequences(mask, rows, k.shape[1])
    if isinstance(q, FakeTensor):
        return (torch.empty_like(q, memory_format=torch.contiguous_format),
                q.new_empty((batch, heads, rows), dtype=torch.float32))
    out, lse = torch.ops.aten._flash_attention_forward(
        *(each.flatten(0, 1) for each in (q, k, v)), _ends(queries, batch, q.device),
        _ends(keys, batch, q.device), max(queries), max(keys), 0.0, causal, False, scale=scale,
        **window, **more)[:2]
    return (out.unflatten(0, (batch, rows)).contiguous(),
            lse.unflatten(1, (batch, rows)).transpose(0, 1).contiguous())


def visible(mask, seq_q, seq_kv, device):
    """Which keys queries see, bool (Sq, Skv): windows, documents and prefixes."""
    window = _window(mask)
    query = torch.arange(seq_q, device=device)[:, None] + (seq_kv - seq_q)
    key = torch.arange(seq_kv, device=device)[None, :]
    if window is not None:
        causal, left, right = window
        seen = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=device)
        if causal:
            seen &= key <= query
        if left is not None:
            seen &= key >= query - left
        if right is not None:
            seen &= key <= query + right
        return seen
    kind, keys = ("", {}) if _is_composed(mask) else _described(mask)
    if kind == "prefix" and set(keys) == {"length"}:
        return (key <= query) | (key < _count(keys["length"]))
    if kind == "document":
        if not seq_q == seq_kv == sum(keys["lengths"]) or min(keys["lengths"]) < 0:
            raise errors.InputError(f"the documents of {mask_names.shown(mask)} do not add up to {seq_q} "
                                    f"queries and {seq_kv} keys")
        lengths = torch.tensor(keys["lengths"], device=device)
        names = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)
        seen = names[:, None] == names[None, :]
        return seen & (key <= query) if keys.get("causal", False) else seen
    raise errors.Unsupported(f"no forward pass for the mask {mask_names.shown(mask)}: bring your own, and call "
                             "stagger.attention_backward")


def leaves_out_queries(mask, seq_q, seq_kv):
    """Whether a query may see no key: of a window, whether one does."""
    window = _window(mask)
    if window is None:
        return seq_q > seq_kv
    right = 0 if window[0] else window[2]
    return right is not None and seq_kv - seq_q + right < 0


def _is_composed(mask):
    """Whether words are of several masks."""
    return not mask.startswith("{") and any(sign in mask for sign in "&|(")


def _count(word):
    """A mask's number. Raises InputError for what is none."""
    try:
        return int(word)
    except (TypeError, ValueError):
        raise errors.InputError(f"{word!r} is no number in a mask") from None


def _described(mask):
    """A mask's kind and keys, from words or JSON."""
    if mask.startswith("{"):
        keys = json.loads(mask)
        return keys.pop("kind", ""), keys
    kind, _, rest = mask.partition(":")
    keys = dict(pair.split("=", 1) for pair in rest.split(",") if "=" in pair)
    if "lengths" in keys:
        keys["lengths"] = [_count(length) for length in keys["lengths"].split("+")]
    if "causal" in keys:
        keys["causal"] = keys["causal"] in ("1", "true")
    return kind, keys


def _reference(q, k, v, mask, scale):
    if q.is_cuda:
        once.warn("this forward pass is plain arithmetic in float32, which is slow: flash takes windows "
                  "and documents; for other masks bring one, with stagger.attention_backward")
    group = q.shape[2] // k.shape[2]
    k32 = k.float().repeat_interleave(group, 2).permute(0, 2, 3, 1)
    v32 = v.float().repeat_interleave(group, 2).transpose(1, 2)
    seen = visible(mask, q.shape[1], k.shape[1], q.device)
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[0], q.shape[2], q.shape[1], dtype=torch.float32, device=q.device)
    block = max(1, min(q.shape[1], (1 << 26) // max(1, q.shape[0] * q.shape[2] * k.shape[1])))
    for begin in range(0, q.shape[1], block):
        rows = slice(begin, begin + block)
        scores = q[:, rows].float().transpose(1, 2) @ k32 * scale
        scores = scores.masked_fill(~seen[rows], -math.inf)
        some = torch.logsumexp(scores, -1)
        lse[:, :, rows] = some
        p = torch.exp(scores - some[..., None]).nan_to_num(0.0)
        out[:, rows] = (p @ v32).transpose(1, 2).to(q.dtype)
    return out, lse


@runtime.constant
def _text_of_json(text):
    """A mask's JSON, which torch.compile does not trace, as the library takes it."""
    return as_mask(text).text


def text_of(mask):
    """A mask as the library takes it."""
    if isinstance(mask, str) and mask.lstrip().startswith("{"):
        return _text_of_json(mask)
    return as_mask(mask).text


@runtime.constant
def _kept_name(text):
    """For good: what torch.compile has traced comes here no more."""
    return mask_names.name_of(text, for_good=True)


def name_of(text):
    """A mask's text as one word of an operator's arguments, a short one."""
    if len(text) <= mask_names.LONG:
        return text
    return _kept_name(text) if shapes.compiles() else mask_names.name_of(text)
