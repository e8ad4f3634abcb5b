"""Where stopped calls of a device say so, and what its last calls were."""

import collections
import ctypes
import itertools

from . import _lib, errors


class Stops:
    """The status of a device, which a call that waits too long writes, and its last calls."""

    def __init__(self, index):
        self.index = index
        self._ids = itertools.count(1)
        self._calls = collections.deque(maxlen=64)  # (number, what it was) of the last ones
        self.status = ctypes.POINTER(_lib.Status)()
        _lib.check(_lib.library().stagger_status_new(ctypes.byref(self.status)))
        self._stopped = self.status.contents

    def note(self, what):
        """A number for a call, by which a stopped one is known later."""
        number = next(self._ids)
        self._calls.append((number, what))
        return number

    def raise_if_stopped(self):
        """Raises Timeout if a call was stopped since the last look: one load from host memory."""
        status = self._stopped
        if status.code == 0:
            return
        number, count = status.call_id, status.count
        what = dict(self._calls.copy()).get(number, "a call long ago")
        status.count = status.code = 0
        raise errors.Timeout(
            f"device {self.index}: call {number} ({what}) was stopped, as a wait for its turn was "
            f"too long; {count} calls since have gradients of NaN. Plans are verified before they "
            "run: another kernel held SMs for that long, or the hardware is at fault")
