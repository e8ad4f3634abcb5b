"""Tables as numpy arrays, to and from files and the library."""

import json
import pathlib

import numpy as np

from . import errors, plain
from .masks import mask as as_mask


def _whole(name, numbers, dtype):
    """An array of a dtype. Raises ValueError for numbers that it does not hold, or that are not whole."""
    numbers = np.asarray(numbers)
    if numbers.size == 0:
        return np.zeros(numbers.shape, dtype)
    if numbers.dtype.kind not in "iu":
        kind = "Python objects" if numbers.dtype.kind == "O" else numbers.dtype
        raise ValueError(f"{name} is of {kind}; it is of whole numbers that {np.dtype(dtype)} holds")
    least, most = int(numbers.min()), int(numbers.max())
    if least < np.iinfo(dtype).min or most > np.iinfo(dtype).max:
        raise ValueError(f"{name} has numbers from {least} to {most}; {np.dtype(dtype)} does not hold them")
    return np.ascontiguousarray(numbers, dtype)


class Table:
    """An assignment table: `slots` int32[tasks, 4] of (head, kv, q, rank), lane by lane, and
    `lane_begin` int64[lanes + 1], with the `problem` of a table file as a dict and, where heads
    share K and V, its `dkv`: by default {"span": 1, "combine": "partials"}. Raises ValueError for
    numbers that are not whole or that these dtypes do not hold, and for lanes that do not add up."""

    def __init__(self, slots, lane_begin, problem, name="mine", dispatch="static", dkv=None):
        self.slots = _whole("slots", slots, np.int32).reshape(-1, 4)
        self.lane_begin = _whole("lane_begin", lane_begin, np.int64)
        self.problem, self.name, self.dispatch = dict(problem), name, dispatch
        self.dkv = {"span": 1, "combine": "partials"} if dkv is None else dict(dkv)
        begin = self.lane_begin
        if begin.ndim != 1 or begin.size == 0 or begin[0] != 0 or begin[-1] != len(self.slots) \
                or (np.diff(begin) < 0).any():
            raise ValueError("lane_begin must rise from 0 to the number of slots, "
                             f"{len(self.slots)}")

    @property
    def lanes(self):
        """Every lane's slots."""
        return [self.slots[begin:end]
                for begin, end in zip(self.lane_begin[:-1], self.lane_begin[1:])]

    def to_dict(self):
        """As a stagger.table/1 file has it (/2 where heads share K and V)."""
        document = {"schema": "stagger.table/1", "name": self.name, "problem": self.problem,
                    "dispatch": self.dispatch, "lanes": [lane.tolist() for lane in self.lanes]}
        if self.problem.get("heads_kv", self.problem["heads"]) != self.problem["heads"]:
            document["schema"] = "stagger.table/2"
            document["dkv"] = self.dkv
        return document

    @classmethod
    def from_dict(cls, document):
        """Raises InputError for what is no table."""
        try:
            lanes = document["lanes"]
            slots = [slot for lane in lanes for slot in lane]
            begin = np.cumsum([0] + [len(lane) for lane in lanes])
            return cls(slots, begin, document["problem"], document.get("name", ""),
                       document["dispatch"], document.get("dkv"))
        except (KeyError, TypeError, ValueError) as error:
            raise errors.InputError(f"this is no table: {error!r}") from error

    def to_json(self):
        return json.dumps(self.to_dict(), default=plain.jsonable)

    def save(self, path):
        """Raises FileError if it cannot be written."""
        with errors.of_file(path):
            pathlib.Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path):
        """Raises FileError for a file that cannot be read, and InputError for one that is no table."""
        with errors.of_file(path):
            text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise errors.InputError(f"{path} is no table: {error!r}") from error
        return cls.from_dict(document)


def table(mask=None, schedule="auto", *, slots=None, lane_begin=None, problem=None, name="mine",
          dispatch="static", dkv=None, seq=None, seq_q=None, seq_kv=None, tile_q=0, tile_kv=0,
          heads=1, heads_kv=None, span=0, sms=132):
    """A table: by a schedule for a mask, or of your own arrays.

    table("causal", "spt", seq=4096, tile_q=64, tile_kv=128, heads=64, sms=132)
    table(slots=..., lane_begin=..., problem={"heads": 1, "kv_tiles": 2, ...}, name="mine")
    """
    if slots is not None:
        return Table(slots, lane_begin, problem, name, dispatch, dkv)
    from .plans import Plan
    made = Plan(as_mask("causal" if mask is None else mask), schedule,
                seq_q=seq if seq_q is None else seq_q, seq_kv=seq if seq_kv is None else seq_kv,
                heads=heads, heads_kv=heads_kv, span=span, tile_q=tile_q, tile_kv=tile_kv,
                sms=sms)
    return Table.from_dict(made.json())
