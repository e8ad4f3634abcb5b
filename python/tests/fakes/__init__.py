"""Small stand-ins for libraries that hooks are for, with the signatures of the real ones.

Each file names the library, the version and the file that its signatures are from.
"""

import contextlib
import importlib
import sys
from unittest import mock


@contextlib.contextmanager
def installed(hook, **modules):
    """Modules under the names that a hook imports (`__` for a dot), and the hook, imported anew."""
    named = {name.replace("__", "."): module for name, module in modules.items()}
    with mock.patch.dict(sys.modules, named):
        full = f"stagger.integrations.{hook}"
        sys.modules.pop(full, None)
        try:
            yield importlib.import_module(full)
        finally:
            sys.modules.pop(full, None)


@contextlib.contextmanager
def absent(hook, *names):
    """A hook whose library cannot be imported."""
    full = f"stagger.integrations.{hook}"
    gone = [name for name in sys.modules if name.partition(".")[0] in names]
    with mock.patch.dict(sys.modules, {name: None for name in (*names, *gone)}):
        sys.modules.pop(full, None)
        try:
            yield lambda: importlib.import_module(full)
        finally:
            sys.modules.pop(full, None)
