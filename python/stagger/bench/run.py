"""The bench itself: cases, opponents and the protocol on this GPU, into a `stagger.bench/2` file."""

import contextlib
import dataclasses
import datetime
import itertools
import json
import pathlib

from .. import errors, info
from . import opponents as rows
from . import protocol as fair
from .device import CudaClock, Rates

SCHEMA = "stagger.bench/2"
SETS = 3  # of tensors, in turn: together more than the L2 cache holds
_L2_BYTES = 100 << 20


def inputs(case, seed):
    """q, k, v and d_out of normal numbers, bf16 (B, S, H, D): few significant bits would run at a
    higher clock rate."""
    import torch
    generator = torch.Generator("cuda").manual_seed(seed)
    shapes = [(case.batch, case.seq, heads, case.dim)
              for heads in (case.heads, case.heads_kv, case.heads_kv, case.heads)]
    q, k, v, d_out = (torch.randn(shape, generator=generator, device="cuda").to(torch.bfloat16)
                      for shape in shapes)
    return [each.requires_grad_() for each in (q, k, v)], d_out


def sets_of(case):
    """How many sets of tensors are taken in turn: so many that they do not fit into L2."""
    elements = case.batch * case.seq * case.dim * (2 * case.heads + 2 * case.heads_kv)
    return max(SETS, -(-_L2_BYTES // (2 * elements)))


@contextlib.contextmanager
def strictly(strict):
    """torch's deterministic algorithms or its usual ones; memory is not filled either way."""
    import torch
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(strict)
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


class Contender:
    """An opponent with the forward passes of a case behind it: called, it enqueues a backward pass
    of the next set of tensors."""

    def __init__(self, opponent, case, sets):
        import torch
        self._opponent, self._grad = opponent, torch.autograd.grad
        with strictly(opponent.strict):
            self._turns = [(opponent.attend(*leaves, case), leaves, d_out)
                           for leaves, d_out in sets]
        self._order = itertools.cycle(self._turns)

    def __call__(self):
        out, leaves, d_out = next(self._order)
        return self._grad(out, leaves, d_out, retain_graph=True)

    def same_bits(self, times=3):
        """Whether the first set's gradients have the same bits every time."""
        import torch
        out, leaves, d_out = self._turns[0]
        first, *others = [self._grad(out, leaves, d_out, retain_graph=True) for _ in range(times)]
        return all(torch.equal(a.view(torch.int16), b.view(torch.int16))
                   for other in others for a, b in zip(first, other))


class Switching:
    """The clock, which turns torch's deterministic flag to what an opponent needs outside of what
    is timed."""

    def __init__(self, clock, strict):
        self._clock, self._strict = clock, strict

    def __getattr__(self, name):
        return getattr(self._clock, name)

    def timed(self, function):
        with strictly(self._strict.get(function, False)):
            return self._clock.timed(function)


def reason(opponent, case):
    """Why an opponent does not run a case; None if it does."""
    return opponent.missing() or opponent.refuses(case)


def measured(case, opponents, protocol, clock):
    """One case's entry of the document."""
    sets = [inputs(case, seed) for seed in range(sets_of(case))]
    contenders, absent = {}, {}
    for opponent in opponents:
        why = reason(opponent, case)
        if why is None:
            try:
                contenders[opponent.name] = Contender(opponent, case, sets)
            except RuntimeError as error:  # torch has no kernel for it after all
                why = str(error).splitlines()[0]
        if why is not None:
            absent[opponent.name] = why
    by_name = {each.name: each for each in opponents}
    strict = {contenders[name]: by_name[name].strict for name in contenders}
    bits = {}
    for name, contender in contenders.items():
        with strictly(by_name[name].strict):
            bits[name] = contender.same_bits()
    rounds, repeated = fair.measure(Switching(clock, strict), contenders, protocol)
    return entry_of(case, by_name, rounds, repeated, absent, bits)


def entry_of(case, by_name, rounds, repeated, absent, bits):
    """The entry of a case, from its rounds."""
    results = []
    for name in by_name:
        if name in absent:
            results.append({"opponent": name, "absent": absent[name]})
            continue
        result = {"opponent": name, "deterministic": by_name[name].deterministic,
                  "same_bits": bits[name]}
        for regime, done in rounds.items():
            found = fair.summary(done, name)
            found["tflops"] = case.flops / found["ms"] / 1e9
            if name != rows.STAGGER and rows.STAGGER in by_name and rows.STAGGER not in absent:
                found["stagger"] = fair.ratio(done, rows.STAGGER, name)
            result[regime] = found
        results.append(result)
    return {"case": {**dataclasses.asdict(case), "name": case.name, "mask": case.mask},
            "flops": case.flops, "repeated_rounds": repeated, "results": results}


def environment():
    """Versions and the device. Raises NoDevice without one."""
    import torch

    from ..torch import runtime
    runtime.expect_gpu()
    known = info()
    return {"device": torch.cuda.get_device_name(), "sms": known["sms"],
            "driver": known["driver"], "torch": torch.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(), "stagger": known["version"],
            "commit": known["commit"], "numerics": known["numerics"],
            "date": datetime.date.today().isoformat()}


#: What may differ between what a file has and what joins it; every case says its own.
_OWN = ("commit", "date")


def document_of(path):
    """A bench's document. Raises InputError for a file that is none, OSError for what is no file."""
    try:
        document = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise errors.InputError(f"{path} is no JSON: {error}") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise errors.InputError(f"{path} is {schema}, not {SCHEMA}")
    if not isinstance(document.get("cases"), list):
        raise errors.InputError(f"{path} has no list of cases")
    return document


def kept(document, output):
    """Cases that a bench's file has of the same device, versions and protocol, by name."""
    path = pathlib.Path(output)
    if not path.exists():
        return {}
    before = document_of(path)
    if any(before.get(key) != value for key, value in document.items()
           if key not in (*_OWN, "cases")):
        return {}
    own = {key: before[key] for key in _OWN}
    return {entry["case"]["name"]: {**own, **entry} for entry in before["cases"]}


def bench(cases, opponents, protocol, say=print, output=None):
    """Measures cases one after the other, and says each. The document is written to `output` after
    each case, so that a bench that is stopped keeps what it has measured; what is there of the same
    device, versions and protocol stays."""
    document = {"schema": SCHEMA, **environment(), "protocol": dataclasses.asdict(protocol)}
    rates = Rates()
    clock = CudaClock(rates)
    entries = kept(document, output) if output else {}
    own = {key: document[key] for key in _OWN}
    if output:
        expect_writable(output)
    try:
        for case in cases:
            entry = entries[case.name] = {**measured(case, opponents, protocol, clock), **own}
            say(line_of(entry))
            document |= {"cases": list(entries.values()), "seen": rates.summary()}
            if output:
                save(document, output)
    finally:
        rates.close()
    return document


def line_of(entry):
    """A case in one line: TFLOP/s of each, in a row and rested."""
    words = [f"{result['opponent']} {result['steady']['tflops']:.0f}/"
             f"{result['spaced']['tflops']:.0f}" for result in entry["results"]
             if "steady" in result]
    return f"{entry['case']['name']}: {', '.join(words)}"


def part_of(path):
    """Where a document is written before it takes the place of the one before."""
    return pathlib.Path(f"{path}.part")


def expect_writable(path):
    """Raises OSError, before minutes of work, where save() could not; what is there stays."""
    part_of(path).touch()
    part_of(path).unlink()


def save(document, path):
    part = part_of(path)
    part.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    part.replace(path)
