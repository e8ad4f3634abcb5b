"""Scripts of the checkout as modules."""

import importlib
import pathlib
import sys
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[3]


def script(name):
    """scripts/NAME.py, a part of a package by its dotted name; as new each time."""
    for known in [each for each in sys.modules if each == name or each == name.split(".")[0]]:
        del sys.modules[known]
    with mock.patch.object(sys, "path", [str(ROOT / "scripts"), *sys.path]):
        return importlib.import_module(name)
