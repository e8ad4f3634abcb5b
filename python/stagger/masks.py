"""Masks: what attends to what, as the command and its files describe it."""

import functools
import json
import re

from . import errors

#: Kinds and keys that words can have.
_NAME = re.compile("[a-z][a-z_-]*")
#: Words of one mask with keys.
_ONE_MASK = re.compile("[a-z][a-z_-]*:[a-z_]+=[a-z0-9_+-]+(,[a-z_]+=[a-z0-9_+-]+)*")


class Mask:
    """A mask description: a kind and its keys, or words as `--mask` takes them.

    `text`: as the library takes it: words where there are words for all of it, else JSON with sorted
    keys. A kind and its keys have one text, as a dict, as JSON and by stagger.mask's arguments.

    Causal masks and windows end together where the lengths differ (bottom-right), as in
    FlashAttention; torch's `is_causal` is aligned at the beginning. What torch.compile traces takes
    masks with keys that were made outside of it.
    """

    def __init__(self, description):
        words = isinstance(description, str)
        self.text = _text_of_words(description) if words else _text_of_keys(description)
        self.description = self.text if words else description

    def __eq__(self, other):
        return isinstance(other, Mask) and self.text == other.text

    def __hash__(self):
        return hash(self.text)

    def __repr__(self):
        return f"stagger.mask({self.text!r})"


def mask(kind, **keys):
    """A mask: `mask("causal")`, `mask("sliding", left=511, right=0)`,
    `mask("document", lengths=[512, 512], causal=True)`, `mask("sliding:left=511,right=0")`,
    `mask("and", of=[mask("causal"), mask("sliding", left=511)])`, or a dict as in files.
    `stagger.masks()` lists the kinds with their keys. Raises UsageError for what is none of these."""
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


def _text_of_words(words):
    """What is written in two ways, in one. What is no JSON stays, for the library to refuse."""
    if words.startswith("@"):
        return words
    words = words.strip(" \t\r\n")
    if not words.startswith("{"):
        return words
    try:
        return _text_of_keys(json.loads(words, object_pairs_hook=_each_once))
    except (ValueError, RecursionError):
        return words


def _each_once(pairs):
    """A dict of pairs. Raises ValueError if a key is there twice, which the library refuses."""
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key is given twice")
    return dict(pairs)


def words_in_order(words):
    """The words of one mask with its keys in the order that Mask.text gives a dict's; a key that is
    there twice is left to the library to refuse."""
    if not _ONE_MASK.fullmatch(words):
        return words
    kind, _, rest = words.partition(":")
    pairs = [pair.partition("=") for pair in rest.split(",")]
    if len({name for name, _, _ in pairs}) != len(pairs):
        return words
    return f"{kind}:{','.join(map(''.join, sorted(pairs, key=lambda pair: _place(pair[0]))))}"


def _place(name):
    """By what keys are sorted: `causal` comes last, as it is mostly written."""
    return name == "causal", name


def _text_of_keys(description):
    """A kind and its keys in words, document:lengths=3+4,causal=true, or in JSON."""
    names = sorted(set(description) - {"kind"}, key=_place)
    values = [_word(description[name]) for name in names]
    kind = description.get("kind")
    named = all(isinstance(name, str) and _NAME.fullmatch(name) for name in (kind, *names))
    if None in values or not named:
        return json.dumps(description, sort_keys=True, separators=(",", ":"))
    pairs = ",".join(map("=".join, zip(names, values)))
    return f"{kind}:{pairs}" if pairs else kind


def _word(value):
    """A key's value in words; None if they have none for it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    numbers = value if isinstance(value, list) else [value]
    if not numbers or any(isinstance(each, bool) or not isinstance(each, int) for each in numbers):
        return None
    return "+".join(map(str, numbers))


@functools.lru_cache(maxsize=1)
def _kinds():
    """The type of every key, by its kind."""
    from .analysis import masks
    return {each["kind"]: {key["name"]: key["type"] for key in each["keys"]} for each in masks()}


#: How words are read, by the type of their key.
_READ = {"integer": int, "boolean": {"true": True, "1": True, "false": False, "0": False}.__getitem__,
         "integers": lambda words: [int(word) for word in words.split("+")],
         "strings": lambda words: words.split("+")}


def _keys_of(part):
    """A mask as a part of another: a dict. Raises UsageError for words of several masks and for files."""
    if not isinstance(part.description, str):
        return part.description
    try:
        if part.text.startswith("{"):
            return json.loads(part.text)
        kind, _, rest = part.text.partition(":")
        types = _kinds()[kind]
        pairs = [pair.partition("=") for pair in rest.split(",") if rest]
        return {"kind": kind, **{name: _READ[types[name]](value) for name, _, value in pairs}}
    except (KeyError, ValueError) as error:
        raise errors.UsageError(f"the mask {part.text!r} cannot be a part of another one: give it by its "
                                "kind and keys, stagger.mask(\"sliding\", left=511)") from error


def _plain(value):
    """What JSON has of it; numbers of arrays and of tensors too, if these are on the host."""
    if isinstance(value, Mask):
        return _keys_of(value)
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
