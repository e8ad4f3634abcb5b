"""Plans: a table for a problem, verified, and what a device needs of it; and their cache."""

import collections
import concurrent.futures
import ctypes
import json
import os
import reprlib
import shlex
import threading
import weakref

import numpy as np

from . import _lib, errors, plain, settings
from .masks import mask as as_mask


class Plan:
    """A plan of libstagger. It does not change, and any thread may use it.

    Attributes (see stagger_plan_info): tile_q, tile_kv, lanes, ctas, launch, resident_needed,
    invariant, tasks, order_digest, table_digest, predicted_ns, schedule, mask, device_bytes,
    workspace_bytes, host_bytes, span; and what was asked for, as `problem`: a dict of mask, batch, heads,
    heads_kv, head_dim, dtype, seq_q, seq_kv, schedule, invariant.

    seq_q, seq_kv: tokens; batch, heads, heads_kv, head_dim: counts; dtype: "bf16", "fp16", or
    "fp32" for the CPU; sms: SMs that it is for, 0 for all of the current device. tile_q, tile_kv:
    tokens of a tile, 0 to be chosen. span: query heads of a KV head that share a chain, whose dK
    and dV are summed in registers, 0 for as many as are predicted to be fastest. machine, table:
    JSON text, or `@` and a file; of a machine also a name that is built in ("h200", "h100", "h800"). A
    table takes the place of schedule and invariant. What ends in _bytes is bytes, predicted_ns is
    nanoseconds. A copy is the plan itself; to pickle it is a TypeError.

    Raises UsageError, InputError or FileError for arguments, Unsupported for a schedule that does
    not apply, LimitError for sizes, Deadlock for a table that hangs, and NoDevice where sms is 0
    and there is none.
    """

    handle = None  # until there is one

    def __init__(self, mask="causal", schedule="auto", *, seq_q, seq_kv=None, batch=1, heads=1,
                 heads_kv=None, head_dim=64, dtype="fp32", sms=0, tile_q=0, tile_kv=0, span=0,
                 elastic=False, invariant=False, verify=True, machine=None, table=None):
        seq_kv = seq_q if seq_kv is None else seq_kv
        heads_kv = heads if heads_kv is None else heads_kv
        asked = expect_counts(2**31, batch=batch, heads=heads, heads_kv=heads_kv, head_dim=head_dim)
        chosen = expect_counts(2**31, sms=sms, tile_q=tile_q, tile_kv=tile_kv, span=span)
        lengths = expect_counts(2**63, seq_q=seq_q, seq_kv=seq_kv)
        expect_words(schedule=schedule, machine=machine or "")
        self._own = table is not None
        if self._own:
            _expect_own(table, invariant)
        if not isinstance(dtype, str) or dtype not in _lib.DTYPES:
            raise errors.UsageError(f"dtype is {dtype!r}; it is {', '.join(_lib.DTYPES)}")
        self.problem = {"mask": as_mask(mask).text, **asked, "dtype": dtype, **lengths,
                        "schedule": schedule, "invariant": bool(invariant)}
        self.handle = ctypes.c_void_p()
        by_table = self._own and schedule == "auto"
        request = _lib.Problem(
            flags=(0 if verify else _lib.NO_VERIFY) | (_lib.INVARIANT if invariant else 0),
            batch=asked["batch"], heads_q=asked["heads"], heads_kv=asked["heads_kv"],
            head_dim=asked["head_dim"], dtype=_lib.DTYPES[dtype],
            launch=_lib.ELASTIC if elastic else _lib.COOPERATIVE, **lengths, **chosen,
            mask=self.problem["mask"].encode(), schedule=None if by_table else schedule.encode(),
            table=table.encode() if self._own else None,
            machine=machine.encode() if machine else None)
        library = _lib.library()
        _lib.check(library.stagger_plan_create(ctypes.byref(request), ctypes.byref(self.handle)))
        self._destroy = library.stagger_plan_destroy
        info = _lib.PlanInfo()
        _lib.check(library.stagger_plan_describe(self.handle, ctypes.byref(info)))
        for name, _ in _lib.PlanInfo._fields_[1:]:
            value = getattr(info, name)
            setattr(self, name, _lib.text_of(value) if isinstance(value, bytes) else value)

    def __del__(self):
        if self.handle:
            self._destroy(self.handle)

    def __copy__(self):
        return self  # it does not change, and its handle has one owner

    def __deepcopy__(self, _):
        return self

    def __reduce__(self):
        raise TypeError("a stagger.Plan is of one process and cannot be pickled: make it again of its "
                        "arguments, or of its table as text, json.dumps(plan.json())")

    def table(self):
        """The table: slots int32[tasks, 4] of (head, kv, q, rank), lane by lane, and lane_begin
        int64[lanes + 1]."""
        slots = np.empty((self.tasks, 4), np.int32)
        lane_begin = np.empty(self.lanes + 1, np.int64)
        _lib.check(_lib.library().stagger_plan_table(
            self.handle, slots.ctypes.data, lane_begin.ctypes.data))
        return slots, lane_begin

    def json(self):
        """The table as a file has it: a dict."""
        text = ctypes.c_void_p()
        _lib.check(_lib.library().stagger_plan_json(self.handle, ctypes.byref(text)))
        return json.loads(_lib.taken(text))

    def machine(self):
        """What counts of the machine profile for these tiles: a dict, whose text as `machine` makes
        the same table with this schedule, tiles, span and SMs, whatever has become of the profile."""
        text = ctypes.c_void_p()
        _lib.check(_lib.library().stagger_plan_machine(self.handle, ctypes.byref(text)))
        return json.loads(_lib.taken(text))

    def verifying(self):
        """The command that makes this table again and says whether it is sound."""
        mask = self.problem["mask"]
        given = {"mask-file" if mask.startswith("@") else "mask": mask.removeprefix("@"),
                 "seq-q": self.problem["seq_q"], "seq-kv": self.problem["seq_kv"],
                 "tile-q": self.tile_q, "tile-kv": self.tile_kv,
                 "heads": self.problem["batch"] * self.problem["heads"],
                 "heads-kv": self.problem["batch"] * self.problem["heads_kv"], "span": self.span,
                 "sms": self.ctas, "schedule": self.schedule, "model": "overlap"}
        if self._own:  # whose name is no schedule's
            return "stagger verify --model overlap FILE"
        words = (f"--{name} {shlex.quote(str(value))}" for name, value in given.items())
        return " ".join(("stagger analyze", *words))

    def __repr__(self):
        known = self.problem
        heads = f"{known['heads']}" if known["heads"] == known["heads_kv"] else \
            f"{known['heads']} / {known['heads_kv']}"
        return (f"<stagger.Plan {self.schedule}, {self.mask}, {known['batch']} x {heads} heads, "
                f"{known['seq_q']} x {known['seq_kv']} tokens, head_dim {known['head_dim']}, "
                f"{known['dtype']}, tiles {self.tile_q} x {self.tile_kv}, {self.tasks} tasks, order "
                f"{self.order_digest:016x}>")


def expect_counts(limit, **counts):
    """Whole numbers by name, as ints. Raises UsageError for what is none, and LimitError for what C
    cannot hold."""
    found = {name: plain.index(count) for name, count in counts.items()}
    for name, count in found.items():
        if count is None:
            raise errors.UsageError(f"{name} is {counts[name]!r}; it is a whole number")
        if not -limit <= count < limit:
            raise errors.LimitError(f"{name} is {count}; it is 0 to {limit - 1}")
    return found


def _expect_own(table, invariant):
    """Raises UsageError for a table of the caller's that is none, or is asked for in another order."""
    expect_words(table=table)
    if not table:
        raise errors.UsageError("table is ''; it is JSON text, or @ and a file")
    if invariant:
        raise errors.UsageError("table and invariant=True exclude each other: a table of your own has its "
                                "orders, and Plan.invariant is of schedules")


def expect_words(**texts):
    """Raises UsageError for what is no text, or has a 0 in it, where C's texts end."""
    for name, text in texts.items():
        if not isinstance(text, str) or "\0" in text:
            raise errors.UsageError(f"{name} is {reprlib.repr(text)}; it is text")


def expect_plan_of(plan, sizes):
    """Raises UsageError for a plan of other sizes (batch, heads, heads_kv, seq_q, seq_kv, head_dim)."""
    if not isinstance(plan, Plan):
        raise errors.UsageError(f"plan is {type(plan).__name__}, not a stagger.Plan")
    other = {name: plan.problem[name] for name, size in sizes.items() if plan.problem[name] != size}
    if other:
        raise errors.UsageError("the plan is of " + ", ".join(
            f"{name} {size}, not {sizes[name]}" for name, size in other.items()))


def expect_room(plan, sms):
    """Raises ResidencyError for a grid that may never start beside others under MPS, on a device of
    so many SMs."""
    why = "" if plan.launch == _lib.ELASTIC else settings.mps_refusal(plan.ctas, sms)
    if why:
        raise errors.ResidencyError(why)


_caches = weakref.WeakSet()


def _begin_all():
    """In a child: no cache waits for the parent's threads."""
    for cache in list(_caches):
        cache._begin()


os.register_at_fork(after_in_child=_begin_all)


class PlanCache:
    """Plans by their arguments, the least recently used going first. Any thread may use it."""

    def __init__(self, plans=128, bytes=1 << 30):
        self._most_plans, self._most_bytes = plans, bytes
        self._plans = collections.OrderedDict()
        self._pinned = []
        self.hits = self.misses = 0
        self._begin()
        _caches.add(self)

    def _begin(self):
        """No thread makes anything: in a child those that did are gone."""
        self._lock = threading.Lock()
        self._making = {}  # plans that a thread makes just now, by their keys

    def get(self, key, make):
        """The plan of a key, made outside of the lock if there is none; a thread that is at it
        already is waited for."""
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
                self.hits += 1
                return plan
            self.misses += 1
            others = self._making.get(key)
            made = self._making.setdefault(key, concurrent.futures.Future())
        if others is not None:
            return others.result()
        try:
            plan = make()
        except BaseException as error:
            with self._lock:
                del self._making[key]
            made.set_exception(error)
            raise
        with self._lock:
            self._plans[key] = plan
            self._shed()
            del self._making[key]
        made.set_result(plan)
        return plan

    def pin(self, plan):
        """Keeps a plan of the cache for good, however many others come; returns it."""
        with self._lock:
            if plan not in self._pinned:
                self._pinned.append(plan)
        return plan

    def _shed(self):
        """Drops the plans that were used longest ago, but for pinned ones and the last."""
        for key in list(self._plans)[:-1]:
            if len(self._plans) <= self._most_plans and self._bytes() <= self._most_bytes:
                return
            if self._plans[key] not in self._pinned:
                del self._plans[key]

    def _bytes(self):
        return sum(plan.host_bytes for plan in self._plans.values())

    def stats(self):
        with self._lock:
            return {"plans": len(self._plans), "bytes": self._bytes(), "hits": self.hits,
                    "misses": self.misses}

    def values(self):
        """The plans that are kept, the least recently used first."""
        with self._lock:
            return list(self._plans.values())

    def clear(self):
        """Drops every plan, pinned ones too."""
        with self._lock:
            self._plans.clear()
            self._pinned.clear()


plans = PlanCache()
