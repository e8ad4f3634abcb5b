"""Masks: what attends to what, as the command and its files describe it."""

import json

from . import errors


class Mask:
    """A mask description: a kind and its keys, or words as `--mask` takes them.

    `text`: as the library takes it, words or JSON with sorted keys.

    Causal masks and windows end together where the lengths differ (bottom-right), as in
    FlashAttention; torch's `is_causal` is aligned at the beginning. What torch.compile traces takes
    masks with keys that were made outside of it.
    """

    def __init__(self, description):
        self.description = description
        self.text = description if isinstance(description, str) else \
            json.dumps(description, sort_keys=True, separators=(",", ":"))

    def __eq__(self, other):
        return isinstance(other, Mask) and self.text == other.text

    def __hash__(self):
        return hash(self.text)

    def __repr__(self):
        return f"stagger.mask({self.text!r})"


def mask(kind, **keys):
    """A mask: `mask("causal")`, `mask("sliding", left=511, right=0)`,
    `mask("document", lengths=[512, 512], causal=True)`, `mask("sliding:left=511,right=0")`,
    or a dict as in files. `stagger.masks()` lists the kinds with their keys. Raises UsageError for
    what is none of these."""
    if isinstance(kind, Mask):
        if keys:
            raise TypeError("a mask has its keys")
        return kind
    if isinstance(kind, dict):
        return Mask(_plain({**kind, **keys}))
    if not isinstance(kind, str) or "\0" in kind:
        what = repr(kind) if isinstance(kind, str) else type(kind).__name__
        raise errors.UsageError(f"a mask is words, a dict as in files or stagger.mask(...), not {what}; "
                                "stagger.masks() lists the kinds")
    if keys:
        return Mask(_plain({"kind": kind, **keys}))
    return Mask(kind)


def _plain(value):
    """What JSON has of it; numbers of arrays and of tensors too, if these are on the host."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if getattr(value, "is_cuda", False):
        raise errors.UsageError("a mask has numbers on the host: those of a tensor on a GPU are to be "
                                "waited for, by its tolist()")
    if hasattr(value, "tolist"):
        return value.tolist()
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise errors.UsageError(f"a mask has numbers, words and lists of them, not {type(value).__name__}")


def window(causal=False, left=None, right=None):
    """The mask of FlashAttention's arguments: query i sees keys from i - left to i + right, where
    None or a negative number is no limit, and nothing behind itself if it is causal. Bottom-right
    aligned, as there."""
    left = -1 if left is None else max(int(left), -1)
    right = 0 if causal else -1 if right is None else max(int(right), -1)
    if left < 0:
        if right < 0:
            return Mask("full")
        if right == 0:
            return Mask("causal")
    return Mask(f"sliding:left={left},right={right}")
