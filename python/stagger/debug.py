"""Which step and which tensor of two runs differ first, from digests that they left.

    record = stagger.debug.Recorder("a.jsonl")
    ...
    loss.backward()
    record(step, stagger.debug.tensors_of(model, optimizer))     # before or after optimizer.step()

    print(stagger.debug.compare("a.jsonl", "b.jsonl"))           # or python -m stagger compare-runs

A file is `stagger.digests/1`: a line of JSON about the run, then one a step. A digest is 64 bits of
an array's bytes, by integer sums, which have one value in any order: on the array's own device,
without a copy of it to the host. Arrays that differ in one word of four bytes have two digests,
others with odds of about 1 - 2^-64; it is no protection against a forger.
"""

import dataclasses
import json
import pathlib
import platform

import numpy as np

from . import _lib, errors, plain
from ._version import __version__
from .plans import plans

SCHEMA = "stagger.digests/1"
_WORD = 4  # bytes that are hashed together
_PIECE = 1 << 24  # words that are hashed at once
# Odd constants of splitmix64's kind, as int64 has them.
_PLACE, _VALUE = -7046029254386353131, -4658895280553007687


def _mixed(places, words):
    """A number for each word and its place, whose sum is the digest; integers wrap around. Every
    step is a bijection of 64 bits."""
    mixed = (words + places * _PLACE) * _VALUE
    mixed = (mixed ^ ((mixed >> 29) & (1 << 35) - 1)) * _PLACE
    return (mixed ^ ((mixed >> 32) & (1 << 32) - 1)) * _VALUE


def _numpy_sum(data):
    data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    padded = np.zeros(-(-data.size // _WORD) * _WORD, np.uint8)
    padded[:data.size] = data
    words, total = padded.view(np.int32), 0
    for begin in range(0, words.size, _PIECE):
        piece = words[begin:begin + _PIECE].astype(np.int64)
        with np.errstate(over="ignore"):
            places = np.arange(begin, begin + piece.size, dtype=np.int64)
            total += int(_mixed(places, piece).sum())
    return total


def _torch_sum(data):
    import torch
    data = data.detach().contiguous().view(-1).view(torch.uint8)
    if data.numel() % _WORD or data.storage_offset() % _WORD:
        data = torch.nn.functional.pad(data, (0, -data.numel() % _WORD)).clone()
    words, total = data.view(torch.int32), 0
    for begin in range(0, words.numel(), _PIECE):
        piece = words[begin:begin + _PIECE].to(torch.int64)
        places = torch.arange(begin, begin + piece.numel(), device=data.device)
        total = total + _mixed(places, piece).sum()
    return int(total)


def digest(array):
    """The digest of a numpy array or a torch tensor: 16 hexadecimal digits, of its bytes alone; of a sparse
    tensor (COO) those of its indices and values as they lie, sums not made."""
    if isinstance(array, np.ndarray) or np.isscalar(array):
        array = np.asarray(array)
        size, total = array.nbytes, _numpy_sum(array) if array.size else 0
    elif getattr(array, "is_sparse", False):
        size, total = 0, 0
        for part in (array.detach()._indices(), array.detach()._values()):
            total = total * _PLACE + int(digest(part), 16)
    else:
        size = array.numel() * array.element_size()
        total = _torch_sum(array) if size else 0
    return f"{(total + size * 0x9E3779B97F4A7C15) % 2**64:016x}"


def tensors_of(model, optimizer=None, gradients=True):
    """What a training step leaves, by name: gradients, parameters, buffers, then what the optimizer
    keeps of each parameter."""
    parameters = dict(model.named_parameters())
    found = {f"gradient {name}": each.grad for name, each in parameters.items()
             if gradients and each.grad is not None}
    found.update({f"parameter {name}": each for name, each in parameters.items()})
    found.update({f"buffer {name}": each for name, each in model.named_buffers()})
    for name, each in parameters.items():
        for key, value in (optimizer.state.get(each, {}) if optimizer else {}).items():
            if hasattr(value, "element_size"):
                found[f"{key} of {name}"] = value
    return found


def _orders():
    """Orders of the plans that are in use, by what they are for."""
    return {repr(plan.problem): f"{plan.order_digest:016x}" for plan in plans.values()}


def _library():
    try:
        return _lib.info()
    except ImportError:
        return {}


class Recorder:
    """Writes digests of named arrays to a file, a line a step."""

    def __init__(self, path, **about):
        """`about` is what else is to be said of the run (seed, commit, ranks). Raises FileError for a file
        that cannot be written."""
        with errors.of_file(path):
            self._file = pathlib.Path(path).open("w", encoding="utf-8")
        known = _library()
        self._write({"schema": SCHEMA, "version": __version__, "numerics": known.get("numerics"),
                     "host": platform.node(), "about": about})

    def _write(self, line):
        self._file.write(json.dumps(line, default=plain.jsonable) + "\n")
        self._file.flush()

    def __call__(self, step, arrays):
        """Records arrays by name (a dict); those None are left out."""
        self._write({"step": step, "orders": _orders(), "digests": {
            name: digest(each) for name, each in arrays.items() if each is not None}})

    def close(self):
        self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@dataclasses.dataclass
class Difference:
    """What two runs have in common, and where they part."""

    steps: int  #: that both recorded, up to the first that differs
    step: object = None  #: the first that differs; None: none does
    tensors: list = dataclasses.field(default_factory=list)  #: that differ there, as recorded
    compared: int = 0  #: tensors of that step, or of the last one
    orders: list = dataclasses.field(default_factory=list)  #: problems whose orders differ there
    about: list = dataclasses.field(default_factory=list)  #: what else differs of the runs
    only: list = dataclasses.field(default_factory=list)  #: tensors that one of them has there

    def __bool__(self):
        """Whether they differ."""
        return self.step is not None

    def __str__(self):
        if self.steps == 0:
            return "the runs have no step in common"
        lines = [f"{self.steps} steps, {self.compared} tensors each: the same bits"]
        if self:
            lines = [f"step {self.step} is the first that differs: {len(self.tensors)} of "
                     f"{self.compared} tensors"] + [f"  {name}" for name in self.tensors[:10]]
            lines += ["  ..."] if len(self.tensors) > 10 else []
        lines += [f"added up in another order: {each}" for each in self.orders]
        lines += [f"in one run alone: {each}" for each in self.only[:10]]
        return "\n".join(lines + [f"{each}" for each in self.about])


def _read(path):
    """The first line of a file, and its steps. Raises FileError for a file that cannot be read, and
    InputError for one that is none."""
    with errors.of_file(path):
        lines = pathlib.Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    if not _parses(lines[-1]):  # of a run that was killed while it wrote it
        lines.pop()
    try:
        head, *steps = [json.loads(line) for line in lines if line]
        if head["schema"] != SCHEMA:
            raise KeyError(head["schema"])
        found = {line["step"]: line for line in steps}
        if not all(isinstance(line["digests"], dict) and isinstance(line["orders"], dict)
                   for line in steps):
            raise TypeError("digests and orders are by name")
        return head, found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise errors.InputError(f"{path} is no {SCHEMA}") from None


def _parses(line):
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _about(first, second):
    names = ("version", "numerics", "host", "about")
    return [f"{name}: {first.get(name)} and {second.get(name)}" for name in names
            if first.get(name) != second.get(name)]


def compare(run_a, run_b):
    """The first step and the tensors in which two recorded runs (files) differ: a Difference. Steps
    that one of them does not have, as of a run that was resumed, are left out; so is a last line that
    was cut. Raises FileError for a file that cannot be read, and InputError for one that is no
    `stagger.digests/1`."""
    (head_a, steps_a), (head_b, steps_b) = _read(run_a), _read(run_b)
    about, found = _about(head_a, head_b), Difference(0)
    for count, step in enumerate((step for step in steps_a if step in steps_b), 1):
        one, other = steps_a[step]["digests"], steps_b[step]["digests"]
        both = [name for name in one if name in other]
        orders = steps_a[step]["orders"], steps_b[step]["orders"]
        found = Difference(
            count, None, [name for name in both if one[name] != other[name]], len(both),
            [name for name in orders[0] if orders[1].get(name, orders[0][name]) != orders[0][name]],
            about, sorted(set(one) ^ set(other)))
        if found.tensors or found.only:
            found.step = step
            break
    return found
