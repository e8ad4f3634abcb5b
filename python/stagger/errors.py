"""Errors: one class for each code of the C interface."""

import contextlib


class StaggerError(Exception):
    """A function of libstagger failed; `code` is its stagger_error."""

    code = 0


def _error(name, code, text):
    return type(name, (StaggerError,), {"code": code, "__doc__": text, "__module__": __name__})


UsageError = _error("UsageError", 1, "An argument, or several together, make no sense.")
InputError = _error("InputError", 2, "A mask, a table, a profile or a number is malformed.")
Unsupported = _error("Unsupported", 3, "What is asked for is not done; the text says why.")
LimitError = _error("LimitError", 4, "A size, a number or memory is beyond a limit.")
FileError = _error("FileError", 5, "A file cannot be read or written.")
NoDevice = _error("NoDevice", 6, "There is no GPU that could run it.")
DeviceError = _error("DeviceError", 7, "A call of CUDA failed, or memory is another device's.")
WorkspaceError = _error("WorkspaceError", 8, "A workspace is too small or absent.")
AlignmentError = _error("AlignmentError", 9, "An address or a stride does not suit the kernel.")
ResidencyError = _error("ResidencyError", 10, "A table needs more CTAs at once than there are.")
CaptureError = _error("CaptureError", 11, "Not while a stream is captured.")
Timeout = _error("Timeout", 12, "A wait was too long: the call was stopped, its gradients are NaN.")
Deadlock = _error("Deadlock", 13, "A table hangs.")
InternalError = _error("InternalError", 14, "A fault of Stagger's own.")


@contextlib.contextmanager
def of_file(path):
    """Raises FileError, with the file's name and the reason, for an OSError meanwhile."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error


class DigestMismatch(StaggerError):
    """A plan adds up in another order than the lock file says: other bits."""


BY_CODE = {each.code: each for each in (
    UsageError, InputError, Unsupported, LimitError, FileError, NoDevice, DeviceError,
    WorkspaceError, AlignmentError, ResidencyError, CaptureError, Timeout, Deadlock,
    InternalError)}
