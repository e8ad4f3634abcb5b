"""Where stopped calls of a device say so, and what its last calls were."""

import collections
import ctypes
import functools
import itertools
import os
import sys

from . import _lib, errors

#: Frames that are kept of where a call is, and that are looked at.
MOST_FRAMES, MOST_DEPTH = 3, 64


@functools.lru_cache(maxsize=1)
def _libraries():
    """The folders of this package and of torch."""
    files = [__file__] + [sys.modules[name].__file__ for name in ("torch",) if name in sys.modules]
    return tuple(os.path.dirname(file) + os.sep for file in files)


def where():
    """Where in the caller's program this is: (file, line, function) of its innermost frames outside
    of this package and of torch."""
    found, frame, libraries = [], sys._getframe(1), _libraries()
    for _ in range(MOST_DEPTH):
        if frame is None or len(found) == MOST_FRAMES:
            break
        file = frame.f_code.co_filename
        if not file.startswith(libraries):
            found.append((file, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found


def _words(place):
    """`, at model.py:42 in forward < train.py:17 in step`; "" if nothing is known."""
    steps = [f"{os.path.basename(file)}:{line} in {function}" for file, line, function in place]
    return ", at " + " < ".join(steps) if steps else ""


def _once_more(what):
    """How to look at a stopped plan's table again."""
    command = getattr(what, "verifying", None)
    return f". `{command()}` looks at its table again" if command else ""


class Stops:
    """The status of a device, which a call that waits too long writes, and its last calls."""

    def __init__(self, index):
        self.index = index
        self._ids = itertools.count(1)
        self._calls = collections.deque(maxlen=64)  # (number, what and where it was) of the last
        self.status = ctypes.POINTER(_lib.Status)()
        _lib.check(_lib.library().stagger_status_new(ctypes.byref(self.status)))
        self._stopped = self.status.contents

    def note(self, what, place=()):
        """A number for a call, by which a stopped one is known later: what it was, and where()."""
        number = next(self._ids)
        self._calls.append((number, (what, place)))
        return number

    def raise_if_stopped(self):
        """Raises Timeout if a call was stopped since the last look: one load from host memory."""
        status = self._stopped
        if status.code == 0:
            return
        number, count = status.call_id, status.count
        what, place = dict(self._calls.copy()).get(number, ("a call long ago", ()))
        status.count = status.code = 0
        raise errors.Timeout(
            f"device {self.index}: call {number} ({what}{_words(place)}) was stopped, as a wait for its "
            f"turn was too long; {count} calls since have gradients of NaN. Plans are verified before "
            f"they run: another kernel held SMs for that long, or the hardware is at fault"
            f"{_once_more(what)}")
