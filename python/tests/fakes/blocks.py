"""Blocks of few elements, a clock and attentions on the CPU, and a document of made-up times."""

import dataclasses
import time

try:
    import torch
except ImportError:
    torch = None

from stagger.bench.opponents import Opponent
from stagger.bench.protocol import Protocol

if torch:
    from stagger.bench import block, transformer

QUICK = Protocol(rounds=2, steady_ms=1.0, counted_ms=1.0, spaced_calls=2, rest_ms=0.0,
                 between_ms=0.0)


class Wall:
    """A clock without a device."""

    def now(self):
        return time.perf_counter()

    def settle(self):
        pass

    def rest(self, ms):
        pass

    def pause(self, ms):
        pass

    def stamp(self):
        return time.perf_counter()

    def between_ms(self, begin, end):
        return 1e3 * (end - begin)

    def timed(self, function):
        begin = self.stamp()
        function()
        return begin, self.stamp()

    def elapsed_ms(self, mark):
        return self.between_ms(*mark)

    def host_us(self, mark):
        return 1.0

    def mean_mhz(self, begin, end):
        return None


def plain(q, k, v, case):
    """Attention as it is defined, (B, S, H, D)."""
    group = case.heads // case.heads_kv
    k, v = (each.repeat_interleave(group, 2) for each in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * case.dim ** -0.5
    if case.causal:
        scores = scores.masked_fill(torch.ones(case.seq, case.seq).triu(1).bool(), -torch.inf)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)


def small(path, **sizes):
    """A model with its proportions, but few elements."""
    model = transformer.read(path)
    group = model.heads // model.heads_kv
    return dataclasses.replace(model, hidden=32, heads=2 * group, heads_kv=2, head_dim=8, ffn=48,
                               **sizes)


def attentions_of_tests(schedules, ops):
    return [Opponent(block.BASE, True, plain, strict=True),
            *(Opponent(f"stagger:{name}", True, plain) for name in schedules)]


def summary(ms):
    return {"ms": ms, "quartiles_ms": [ms, ms], "rounds_ms": [ms], "host_us": 1.0,
            "clock_mhz": None, "calls": 1, "times": {"times": 75.0 / ms, "quartiles": [1, 1]}}


def made_up_row(name, ms, backward_ms, **more):
    """A row whose kernels take what the rates of an H200 say but for attention's backward pass."""
    regions = [{"name": region, "pass": which, "ms": took} for region, which, took in (
        ("norms and residuals", "forward", 1.4), ("qkv", "forward", 1.1), ("rope", "forward", 0.4),
        ("attention", "forward", 7.3), ("o", "forward", 0.8), ("gate+up", "forward", 5.2),
        ("activation", "forward", 1.5), ("down", "forward", 2.7), ("down", "backward", 5.3),
        ("activation", "backward", 2.5), ("gate+up", "backward", 10.5), ("o", "backward", 1.5),
        ("attention", "backward", backward_ms), ("rope", "backward", 0.4),
        ("qkv", "backward", 2.2), ("norms and residuals", "backward", 1.2))]
    return {"attention": name, "deterministic": True, "peak_bytes": 3 << 30, "same_bits": True,
            "gradient_error": 0.004, "gradient_worst": "q", "right": True, "steady": summary(ms),
            "spaced": summary(ms * 0.98), "regions": regions,
            "alone": {"steady": summary(backward_ms + 0.1), "spaced": summary(backward_ms)},
            **more}


def made_up():
    """A document as a measurement leaves it."""
    rows = [made_up_row("torch-flash-det", 75.0, 30.5),
            made_up_row("torch-flash", 63.0, 18.1),
            made_up_row("cudnn", 51.5, 11.6),
            made_up_row("stagger:auto", 54.0, 9.7, plan={"schedule": "spt",
                                                         "predicted_ns": 9_600_000}),
            {"attention": "stagger:shift", "deterministic": True, "absent": "needs a full mask"}]
    compiled = made_up_row("torch-flash-det", 70.0, 30.5,
                           kinds={"gemm": 29.0, "attention": 37.8, "other": 3.0})
    ours = made_up_row("stagger:auto", 49.0, 9.7)
    for row in (compiled, ours):
        del row["regions"], row["alone"]
    case = {"model": "llama3-8b", "seq": 16384, "batch": 1, "causal": True, "seconds": 10.0,
            "repeated_rounds": 0}
    return {"schema": "stagger.block-bench/1", "device": "NVIDIA H200", "torch": "2.11.0",
            "cudnn": 91900, "driver": 13000, "date": "2026-11-23", "command": "so",
            "left_out": [], "cases": [
                {**case, "ops": "eager", "rows": rows},
                {**case, "ops": "compiled", "rows": [compiled, ours]}]}
