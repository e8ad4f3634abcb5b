"""Short names of long masks: operators have a mask as a word, which torch.compile compares at every
call, and documents of a batch are thousands of letters."""

import hashlib

from . import errors

#: Letters up to which a mask is its own name, and names that are kept beside those for good.
LONG, MOST_NAMES = 96, 1024
_recent = {}  # texts by their names, the least recently asked for first
_for_good = {}


def name_of(text, for_good=False):
    """The name of a mask's text: itself, or `#` and the SHA-256 of a long one, by which this process
    knows it until MOST_NAMES others have come, or for good."""
    if len(text) <= LONG:
        return text
    name = "#" + hashlib.sha256(text.encode()).hexdigest()
    if for_good:
        _for_good[name] = text
    _recent.pop(name, None)
    _recent[name] = text
    for oldest in list(_recent)[:max(len(_recent) - MOST_NAMES, 0)]:
        _recent.pop(oldest, None)
    return name


def text_of(name):
    """The text behind a name. Raises InputError if this process does not know it."""
    if not name.startswith("#"):
        return name
    text = _recent.get(name) or _for_good.get(name)
    if text is None:
        raise errors.InputError(f"this process knows no mask {name}, or it is {MOST_NAMES} masks ago: "
                                "give the mask itself")
    return text


def shown(text):
    """A mask's text for a message, which a long one would drown."""
    return text if len(text) <= LONG else f"{text[:LONG - 20]}... ({len(text)} letters)"
