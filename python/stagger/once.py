"""Warnings that are said once in a process."""

import warnings

_said = set()


def warn(text):
    """Warns of something, the first time."""
    if text not in _said:
        _said.add(text)
        warnings.warn(text, stacklevel=3)
