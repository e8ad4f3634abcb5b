"""Whole transformer blocks with one attention or another, forward and backward, into a
`stagger.block-bench/1` document: what they take, each kernel within them, attention alone, memory,
and whether gradients are right and have the same bits.

One block's weights serve every attention, and every call has the same input. Blocks are timed by
the protocol of the bench; their kernels by boundaries that stay out of those times; and, where
torch's profiler runs, once more by the names of the device's kernels.
"""

import dataclasses
import datetime
import gc
import math
import statistics
import time

import torch

from . import marks, opponents, run
from . import protocol as fair
from .transformer import Block

SCHEMA = "stagger.block-bench/1"
BASE = "torch-flash-det"  #: what others are compared with, and replace
WORST_ERROR = 0.03  #: of a gradient beside torch's; what bf16 leaves is less
#: Clock rates that an attention brings about in a block count: only wide spreads are repeated. A GPU
#: at its power limit lowers its clock for a third of a second, once a second or so: what counts is
#: a whole second.
PROTOCOL = fair.Protocol(rounds=3, steady_ms=1500.0, counted_ms=1000.0, spaced_calls=3,
                         rest_ms=20.0, clock_spread=0.15)
ALONE = fair.Protocol(rounds=2, steady_ms=150.0, counted_ms=100.0, spaced_calls=3, rest_ms=10.0,
                      clock_spread=0.15)
COPIES = (64_000_000, 256_000_000, 1_000_000_000, 4_000_000_000)  #: bytes that are moved
_MARKED_MS = 1500.0  #: of marked calls; the last half of them counts
_SUSTAINED_MS = 500.0  #: counted, or more
_PROFILED_CALLS = 3
_SEED = 1


@dataclasses.dataclass(frozen=True)
class Task:
    """A block to be timed: a model on so many tokens, eager or compiled."""

    model: object
    seq: int
    batch: int
    ops: str = "eager"

    @property
    def name(self):
        return f"{self.model.name} {self.batch} x {self.seq:,} {self.ops}"


def load_of(protocol):
    """How machine profiles call what a device is under where so much of a block counts."""
    return "sustained" if protocol.counted_ms >= _SUSTAINED_MS else "burst"


def attentions(schedules, ops="eager"):
    """Opponents of a block: torch's, and ours by schedules; compiled the first schedule alone."""
    found = [*opponents.named([BASE, "torch-flash"]), opponents.cudnn_shared()]
    if ops == "compiled":
        return found + [opponents.by_schedule(name) for name in schedules[:1]]
    return [*found, *map(opponents.by_schedule, schedules),
            *map(opponents.cudnn_then, schedules[:1])]


class Step:
    """A block with an attention: called, it enqueues a forward and a backward pass."""

    def __init__(self, block, call, x, d_out, opponent, case):
        self.block, self.x, self.d_out = block, x, d_out
        self.strict = opponent.strict
        self._call = call
        attend = opponent.attend

        def of_case(q, k, v):
            return attend(q, k, v, case)
        self.attend = of_case

    def clear(self):
        self.x.grad = None
        for parameter in self.block.parameters():
            parameter.grad = None

    def __call__(self):
        self.clear()
        with run.strictly(self.strict):
            self._call(self.x, self.attend).backward(self.d_out)

    def marked(self, clock):
        """A call with stamps at the boundaries."""
        self.clear()
        with run.strictly(self.strict):
            return marks.once(self.block, self.x, self.d_out, self.attend, clock)

    def gradients(self):
        """Those of a call, by the name of what they are of; q, k and v each, so that none hides
        behind a larger one."""
        self()
        found = {name: parameter.grad for name, parameter in self.block.named_parameters()}
        packed = found.pop("qkv").split(self.block.widths)
        return {"input": self.x.grad, **dict(zip("qkv", packed)), **found}


def tensors(task, device, dtype):
    """The block, its input and the gradient of its output."""
    block = Block(task.model, task.seq, device, dtype, _SEED)
    generator = torch.Generator(device).manual_seed(_SEED + 1)
    shape = task.batch, task.seq, task.model.hidden
    x, d_out = (torch.randn(shape, generator=generator, device=device).to(dtype) for _ in range(2))
    return block, x.requires_grad_(), d_out


def same_bits(one, other):
    return all(torch.equal(one[name].contiguous().view(torch.uint8),
                           other[name].contiguous().view(torch.uint8)) for name in one)


def error_of(gradients, reference):
    """The largest |a - b| / |b| of a gradient, by Euclidean norms, and whose it is; infinity for
    one that is not finite."""
    worst = 0.0, ""
    for name, wanted in reference.items():
        wanted = wanted.float()
        error = float((gradients[name].float() - wanted).norm() / wanted.norm())
        worst = max(worst, (error if math.isfinite(error) else math.inf, name))
    return worst


class Memory:
    """The most bytes that tensors take at once, beside those that are there before."""

    def __init__(self, device):
        self._cuda = torch.device(device).type == "cuda"

    def peak(self, function):
        if not self._cuda:
            function()
            return None
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        function()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    def free(self):
        gc.collect()
        if self._cuda:
            torch.cuda.empty_cache()


def said(error):
    """The first line of an error, or its kind."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def reason(opponent, case):
    """Why an opponent does not run a case; None if it may."""
    return opponent.missing() or opponent.refuses(case)


def checked(step, reference, memory):
    """What is true of a block whatever the clock: its memory, its bits, its gradients."""
    step()  # plans, and what is compiled
    step.clear()
    row = {"peak_bytes": memory.peak(step)}
    first = step.gradients()
    row["same_bits"] = same_bits(first, step.gradients())
    error, name = error_of(first, reference or first)
    row |= {"gradient_error": error if math.isfinite(error) else None, "gradient_worst": name,
            "right": error <= WORST_ERROR}
    return row, first


class Bench:
    """Times blocks on one device."""

    profiled = BASE, "cudnn", f"{opponents.STAGGER}:auto"  #: of eager blocks, by kinds of kernels

    def __init__(self, clock, device="cuda", dtype=torch.bfloat16, protocol=PROTOCOL, alone=ALONE,
                 profile=True):
        self.clock, self.device, self.dtype = clock, device, dtype
        self.protocol, self.alone, self.profile = protocol, alone, profile
        self._memory = Memory(device)

    def fill(self, entry, task, rivals):
        """Measures a task, and puts what is known into its entry as it comes to be known."""
        begun = time.monotonic()
        try:
            self._fill(entry, task, rivals)
        finally:
            self._memory.free()
            entry["seconds"] = round(time.monotonic() - begun, 1)

    def _fill(self, entry, task, rivals):
        case = task.model.case(task.seq, task.batch)
        steps, rows = self._steps(entry, task, rivals, case)
        if steps:
            entry["repeated_rounds"] = self._timed(task, steps, rows)
            for step in steps.values():
                step.clear()
        rivals = [rival for rival in rivals if rival.name in steps]
        steps.clear()
        self._memory.free()
        if task.ops == "eager":
            self._alone(case, rivals, rows)

    def _steps(self, entry, task, rivals, case):
        """Steps and rows by attention, checked; rows without a step say why."""
        block, x, d_out = tensors(task, self.device, self.dtype)
        call = block
        if task.ops == "compiled":
            # A function is compiled 8 times at most, once for each attention here: what other tasks
            # compiled is forgotten, or the last of several would run as they are written.
            torch._dynamo.reset()
            call = torch.compile(block)
        steps, rows, reference = {}, {}, None
        for rival in rivals:
            rows[rival.name] = row = {"attention": rival.name, "deterministic": rival.deterministic}
            entry["rows"].append(row)
            why = reason(rival, case)
            if why is None:
                step = Step(block, call, x, d_out, rival, case)
                try:
                    found, gradients = checked(step, reference, self._memory)
                except Exception as error:  # whatever it is, the others go on
                    why = said(error)
            if why is not None:
                row["absent"] = why
                continue
            row |= found
            steps[rival.name] = step
            if reference is None:
                reference = gradients
        return steps, rows

    def _timed(self, task, steps, rows):
        rounds, repeated = fair.measure(self.clock, steps, self.protocol)
        for name, step in steps.items():
            row = rows[name]
            for regime, done in rounds.items():
                row[regime] = fair.summary(done, name)
                if BASE in steps:
                    row[regime]["times"] = fair.ratio(done, name, BASE)
        for name, step in steps.items():
            row = rows[name]
            if task.ops == "eager":
                row["regions"] = self._regions(step, row["steady"]["ms"])
            if self.profile and (task.ops == "compiled" or name in self.profiled):
                row["kinds"] = profiled(step)
        return repeated

    def _regions(self, step, guess_ms):
        calls = max(4, math.ceil(_MARKED_MS / guess_ms))
        taken = [step.marked(self.clock) for _ in range(calls)]
        self.clock.settle()
        return marks.medians([each.sums() for each in taken[calls // 2:]])

    def _alone(self, case, rivals, rows):
        """Backward passes of attention alone, on tensors of normal numbers."""
        leaves, d_out = inputs(case, self.device, self.dtype)
        contenders, strict = {}, {}
        for rival in rivals:
            contenders[rival.name] = run.Contender(rival, case, [(leaves, d_out)])
            strict[contenders[rival.name]] = rival.strict
        if not contenders:
            return
        rounds, _ = fair.measure(run.Switching(self.clock, strict), contenders, self.alone)
        for name in contenders:
            rows[name]["alone"] = {regime: fair.summary(done, name)
                                   for regime, done in rounds.items()}
            plan = plan_of(name, case, leaves)
            if plan:
                rows[name]["plan"] = plan

    def copies(self):
        """[bytes, TB/s] of copies, each the median of the last ten of fifty. Largest first: they
        take long enough for clocks to be up."""
        found = []
        for size in sorted(COPIES, reverse=True):
            source = torch.empty(size // 2, dtype=torch.uint8, device=self.device)
            target = torch.empty_like(source)
            taken = [self.clock.timed(lambda: target.copy_(source)) for _ in range(50)][-10:]
            self.clock.settle()
            taken_ms = statistics.median(map(self.clock.elapsed_ms, taken))
            found.append([size, round(size / taken_ms / 1e9, 3)])
        self._memory.free()
        return found[::-1]


def inputs(case, device, dtype):
    """q, k, v and d_out of normal numbers, (B, S, H, D)."""
    generator = torch.Generator(device).manual_seed(_SEED)
    q, k, v, d_out = (torch.randn(case.batch, case.seq, heads, case.dim, generator=generator,
                                  device=device).to(dtype)
                      for heads in (case.heads, case.heads_kv, case.heads_kv, case.heads))
    return [each.requires_grad_() for each in (q, k, v)], d_out


def plan_of(name, case, leaves):
    """What ours runs by, of its own row's name; None for the others."""
    ours, _, schedule = name.partition(":")
    if ours != opponents.STAGGER:
        return None
    from ..torch import prepare
    plan = prepare(*leaves[:2], mask=case.mask, schedule=schedule.split("+")[0])
    return {"schedule": plan.schedule, "tile_q": plan.tile_q, "tile_kv": plan.tile_kv,
            "span": plan.span, "predicted_ns": plan.predicted_ns,
            "order_digest": f"{plan.order_digest:016x}"}


#: What names of the device's kernels contain, the first kind that fits.
KINDS = {"attention": ("flash", "fmha", "sdpa", "stagger"),
         "gemm": ("gemm", "nvjet", "xmma", "cutlass", "splitk", "cublas")}


def kind_of(kernel):
    """gemm, attention or other, by a kernel's name. Triton's bear the names of what is around."""
    lower = kernel.lower()
    if lower.startswith("triton_"):
        return "other"
    return next((kind for kind, words in KINDS.items() if any(word in lower for word in words)),
                "other")


def profiled(step):
    """ms of a call by kinds of kernels, by torch's profiler; None where that does not run."""
    try:
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            for _ in range(_PROFILED_CALLS):
                step()
            torch.cuda.synchronize()
        return kinds_of((event.name, event.time_range.elapsed_us()) for event in seen.events()
                        if event.device_type == torch.autograd.DeviceType.CUDA)
    except Exception:  # a tool that may be refused, or be another one in another torch
        return None


def kinds_of(kernels):
    """ms of a call by kinds, from (name, us) of every kernel, and which ones attention's are; None
    without any."""
    sums, names = {"gemm": 0.0, "attention": 0.0, "other": 0.0}, set()
    for name, us in kernels:
        kind = kind_of(name)
        sums[kind] += us / 1e3 / _PROFILED_CALLS
        if kind == "attention":
            names.add(name.partition("(")[0][:100])
    return {**sums, "attention_kernels": sorted(names)} if any(sums.values()) else None


def environment():
    """Versions and the device."""
    return {**run.environment(), "total_memory": torch.cuda.get_device_properties(0).total_memory,
            "date": datetime.date.today().isoformat()}


def bench(tasks, rivals_of, meter, document, say=print, output=None, limit_s=math.inf):
    """Measures tasks one after the other into a document, which is written to `output` after each,
    so that what is done is kept when the rest is not. No task is begun after `limit_s`."""
    begun = time.monotonic()
    document |= {"schema": SCHEMA, "load": load_of(meter.protocol),
                 "protocol": dataclasses.asdict(meter.protocol), "cases": [], "left_out": []}
    for task in tasks:
        if time.monotonic() - begun > limit_s:
            document["left_out"].append(task.name)
            continue
        say(task.name)
        entry = {"model": task.model.name, "seq": task.seq, "batch": task.batch, "ops": task.ops,
                 "causal": task.model.attention != "full", "rows": []}
        document["cases"].append(entry)
        try:
            meter.fill(entry, task, rivals_of(task))
        except Exception as error:  # of memory, as a rule: what is known is kept
            entry["failed"] = said(error)
            say(f"  FAILED: {entry['failed']}")
        finally:
            for row in entry["rows"]:
                say(f"  {line_of(row)}")
            if output:
                run.save(document, output)
    if output:
        run.save(document, output)
    return document


def line_of(row):
    """A row in one line."""
    if "absent" in row:
        return f"{row['attention']:<28} absent: {row['absent']}"
    if "spaced" not in row:
        return f"{row['attention']:<28} not timed"
    times = row["steady"].get("times", {}).get("times", math.nan)
    regions = {(each["name"], each["pass"]): each["ms"] for each in row.get("regions", ())}
    inside = regions.get(("attention", "backward"), math.nan)
    alone = row.get("alone", {}).get("steady", {}).get("ms", math.nan)
    error = "NaN" if row["gradient_error"] is None else format(row["gradient_error"], ".4f")
    return (f"{row['attention']:<28} {row['steady']['ms']:8.3f} ms, rested "
            f"{row['spaced']['ms']:8.3f}; {times:5.3f} x; attention backward {inside:7.3f}, alone "
            f"{alone:7.3f}; gradients {error} {'ok' if row['right'] else 'WRONG'}, bits "
            f"{'same' if row['same_bits'] else 'DIFFER'}")
