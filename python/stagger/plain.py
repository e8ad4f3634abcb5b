"""Values of callers as Python's own and as JSON has them, numbers of numpy's among them."""

import operator
import os

import numpy as np

from .masks import Mask


def index(value):
    """A whole number as an int; None for what is none, True and False among it."""
    if isinstance(value, int):  # no more than this is traced by torch.compile
        return None if isinstance(value, bool) else value
    if isinstance(value, np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def jsonable(value):
    """What JSON has of a value that it has no word for, as json.dumps asks: numbers and lists of arrays,
    the name of a path, what a mask is. Raises TypeError for others."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mask):
        return value.description
    number = index(value)
    if number is None:
        raise TypeError(f"JSON has no {type(value).__name__}")
    return number
