"""The lock file: which order gradients were added up in, so that a run that is resumed has it again.

    stagger.lock("run.lock.json")          # or STAGGER_LOCK=run.lock.json, beside the checkpoint

The first plan of a problem adds an entry; a later one, in any process, is made with the entry's
schedule, tiles, span and SMs, and by the times that it went by, whatever "auto" would choose by now
and whatever the device's profile says. If its order differs all the same, or the library's numerics
do, DigestMismatch says why: resuming bit by bit either holds or says why not.

A problem is what was asked for: mask, lengths, batch, heads, head_dim, dtype, schedule, invariant.
The device and its SMs are in the entry, not in the problem, as are tiles and span: where they are
asked for, that counts in the first run alone. A table of the caller's own has its order in itself, and no
entry. The file is `stagger.lock/1`, JSON.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import threading

from . import _lib, errors, plain
from ._version import __version__
from .masks import mask as as_mask, words_in_order
from .plans import Plan

SCHEMA = "stagger.lock/1"
_PROBLEM = ("mask", "seq_q", "seq_kv", "batch", "heads", "heads_kv", "head_dim", "dtype", "schedule",
            "invariant")
_ENTRY = ("problem", "schedule", "tile_q", "tile_kv", "span", "sms", "machine", "order_digest", "numerics",
          "version")


def _problem(arguments):
    """What was asked for, as an entry has it."""
    known = {"seq_kv": arguments["seq_q"], "batch": 1, "heads": 1, "head_dim": 64, "dtype": "fp32",
             "schedule": "auto", "invariant": False, **arguments}
    known["mask"] = _one_text(known.get("mask", "causal"))
    known.setdefault("heads_kv", known["heads"])
    known["invariant"] = bool(known["invariant"])
    return {name: known[name] for name in _PROBLEM}


def _key(problem):
    """By what an entry is found: its problem, the mask in the one text that it has by now."""
    return json.dumps({**problem, "mask": _one_text(problem["mask"])}, sort_keys=True, default=repr)


def _one_text(mask):
    """A mask's text, whatever order its keys were written in."""
    return words_in_order(as_mask(mask).text)


def _expect_keys(what, found, known):
    """Raises ValueError for a key that there is none of."""
    for key in sorted(found.keys() - set(known)):
        raise ValueError(f"{what} has no key {key!r}; known: {', '.join(known)}")


class Lock:
    """A lock file. Any thread and any process may use it."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self._entries = self._read()
        self._thread = threading.Lock()

    def _read(self):
        """Entries of the file, by their problem; none if there is no file."""
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            if document["schema"] != SCHEMA:
                raise errors.InputError(f"{self.path} is {document['schema']}, not {SCHEMA}")
            _expect_keys("a lock file", document, ("schema", "entries"))
            for entry in document["entries"]:
                _expect_keys("an entry", entry, _ENTRY)
                _expect_keys("a problem", entry["problem"], _PROBLEM)
            return {_key(entry["problem"]): entry for entry in document["entries"]}
        except FileNotFoundError:
            if not self.path.resolve().parent.is_dir():
                raise errors.FileError(f"{self.path}: there is no such folder") from None
            return {}
        except OSError as error:
            raise errors.FileError(f"{self.path}: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, errors.UsageError) as error:
            raise errors.InputError(f"{self.path} is no lock file: {error!r}") from error

    @contextlib.contextmanager
    def _alone(self):
        """No other process changes the file meanwhile."""
        folder = os.open(self.path.resolve().parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _add(self, key, entry):
        """Adds an entry to the file, unless another process was first; returns the one there. Raises
        FileError if it cannot be written."""
        with self._thread, errors.of_file(self.path), self._alone():
            self._entries = self._read()
            if key not in self._entries:
                self._write([*self._entries.values(), entry])
                self._entries[key] = entry
            return self._entries[key]

    def _write(self, entries):
        """All of the file or nothing."""
        text = json.dumps({"schema": SCHEMA, "entries": entries}, indent=1) + "\n"
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(self.path)
        except OSError:
            part.unlink(missing_ok=True)
            raise

    def plan(self, **arguments):
        """The plan of a problem (arguments of Plan but `table`), as the file has it; adds it if it does
        not. Raises what Plan does, UsageError for a table, DigestMismatch for another order, FileError for
        a file that cannot be written and InputError for one that is none."""
        if arguments.get("table") is not None:
            raise errors.UsageError(f"table is given, and {self.path} keeps schedules: a table has its order "
                                    "in itself, make its plan by stagger.Plan")
        arguments = {name: each if plain.index(each) is None else plain.index(each)
                     for name, each in arguments.items()}
        problem = _problem(arguments)
        key = _key(problem)
        entry = self._entries.get(key)
        if entry is None:
            plan = Plan(**arguments)
            entry = self._add(key, _entry(problem, plan, arguments.get("sms", 0)))
            if entry["order_digest"] == f"{plan.order_digest:016x}":
                return plan
        return _plan_of(self.path, entry, arguments)


def _entry(problem, plan, sms):
    return {"problem": problem, "schedule": plan.schedule, "tile_q": plan.tile_q,
            "tile_kv": plan.tile_kv, "span": plan.span, "sms": sms,
            "machine": plan.machine(), "order_digest": f"{plan.order_digest:016x}",
            "numerics": _lib.info()["numerics"], "version": __version__}


def _kept(path, entry):
    """What of an entry its plan is made with. Raises InputError for an entry that is none."""
    kinds = {"schedule": str, "tile_q": int, "tile_kv": int, "sms": int, "order_digest": str,
             "numerics": int, "version": str}
    kept = ["schedule", "tile_q", "tile_kv"]
    if "span" in entry:  # written since there are both
        kinds |= {"span": int, "machine": dict}
        kept.append("span")
    for name, kind in kinds.items():
        if not isinstance(entry.get(name), kind):
            raise errors.InputError(f"{path}: an entry's {name} is {entry.get(name)!r}")
    machine = {"machine": json.dumps(entry["machine"])} if "span" in entry else {}
    return machine | {name: entry[name] for name in kept}


def _plan_of(path, entry, arguments):
    """The plan that an entry describes. Raises DigestMismatch if it cannot be had."""
    kept = _kept(path, entry)
    numerics, sms = _lib.info()["numerics"], arguments.get("sms", 0)
    if entry["numerics"] != numerics:
        raise errors.DigestMismatch(
            f"{path}: written with numerics {entry['numerics']} (version {entry['version']}); this "
            f"library has {numerics} (version {__version__}), which may give other bits")
    # A table for fewer SMs runs on more, and keeps its order.
    taken = min(entry["sms"], sms) if sms > 0 < entry["sms"] else sms
    plan = Plan(**{**arguments, **kept, "sms": taken})
    plan.problem["schedule"] = arguments.get("schedule", "auto")  # as it was asked for
    if f"{plan.order_digest:016x}" != entry["order_digest"]:
        why = (f"{entry['sms']} SMs then, {taken} now, and the order of {entry['schedule']} moves "
               "with them: ask for invariant=True, or a schedule that needs one CTA (spt), from the "
               "first run on") if taken != entry["sms"] else \
            ("the entry does not say the span and the times that it went by, as older ones do not: "
             "give the machine of then, or begin another file") if "span" not in entry else \
            f"version {entry['version']} then, {__version__} now" if entry["version"] != __version__ else \
            "its schedule, tiles or span are those of another table"
        raise errors.DigestMismatch(
            f"{path}: {plan!r} is not the recorded order {entry['order_digest']}: {why}")
    return plan


_current = None
_environment_read = False


def lock(path):
    """Keeps to a lock file from here on, in this process; None ends it. Returns the Lock."""
    global _current, _environment_read
    _current, _environment_read = None if path is None else Lock(path), True
    return _current


def current():
    """The Lock that is kept to: lock()'s, or STAGGER_LOCK's; None if there is none."""
    if not _environment_read:
        lock(os.environ.get("STAGGER_LOCK") or None)
    return _current


def plan(**arguments):
    """A plan, by the lock file if there is one."""
    kept = current()
    return Plan(**arguments) if kept is None else kept.plan(**arguments)
