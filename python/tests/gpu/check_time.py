"""Times: of the host, of the device beside torch's flash, and a measured profile."""

import json
import math
import pathlib
import tempfile
import time

import torch

import stagger

from support import check, report, tensors, within


def host_us(call):
    """Microseconds of the host for a call: the least of five rounds of 200."""
    least = math.inf
    for _ in range(5):
        for _ in range(20):
            call()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(200):
            call()
        least = min(least, (time.perf_counter() - begin) / 200)
    torch.cuda.synchronize()
    return 1e6 * least


@within(60)
def host_time():
    """A backward call takes the host less than 60 us, or thirteen times what torch's own x.add_(1)
    does where that is more: hosts differ by two."""
    q, k, v, d_out = tensors(1, 256, 2, 64)
    out, lse = stagger.attention(q, k, v, return_lse=True)
    plain = d_out, q, k, v, out, lse
    one = torch.zeros(4, device="cuda")
    pace = host_us(lambda: one.add_(1))
    for name, call in (
            ("operator", lambda: torch.ops.stagger.backward(
                *plain, "causal", "spt", 0.125, "bshd", 0, False, 0)),
            ("attention_backward", lambda: stagger.attention_backward(
                *plain, schedule="spt", sm_margin=0))):
        took = host_us(call)
        report("host_time", took < max(60, 13 * pace), call=name, host_us=round(took, 1),
               add_us=round(pace, 1))


def elapsed_ms(functions, rounds=7, each=10):
    """Median ms of each function: in every round each runs a few times, in turn."""
    times = [[] for _ in functions]
    for function in functions:
        function()
    for turn in range(rounds):
        for offset in range(len(functions)):
            place = (turn + offset) % len(functions)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            functions[place]()
            begin.record()
            for _ in range(each):
                functions[place]()
            end.record()
            end.synchronize()
            times[place].append(begin.elapsed_time(end) / each)
    return [sorted(each)[len(each) // 2] for each in times]


@check
def speed():
    """Backward passes in one process on the same tensors: ms, and TFLOP/s of ours."""
    for dim, seq, heads_kv, mask in ((128, 4096, 16, "causal"), (128, 4096, 4, "causal"),
                                     (64, 4096, 32, "causal"), (128, 8192, 16, "full")):
        heads = 2048 // dim
        batch = 16384 // seq
        heads_kv = heads_kv if heads_kv < heads else heads
        q, k, v, d_out = tensors(batch, seq, heads, dim, heads_kv=heads_kv)
        out, lse = stagger.attention(q, k, v, mask=mask, return_lse=True, forward="flash")
        group, causal = heads // heads_kv, mask == "causal"
        keys, values = (x.repeat_interleave(group, 2) for x in (k, v))
        theirs, sums, rng, unused = torch.ops.aten._flash_attention_forward(
            q, keys, values, None, None, seq, seq, 0.0, causal, False)[:4]

        def ours():
            stagger.attention_backward(d_out, q, k, v, out, lse, mask=mask)

        def flash(strict):
            def run():
                torch.use_deterministic_algorithms(strict)
                torch.utils.deterministic.fill_uninitialized_memory = False
                torch.ops.aten._flash_attention_backward(
                    d_out, q, keys, values, theirs, sums, None, None, seq, seq, 0.0, causal, rng,
                    unused)
                torch.use_deterministic_algorithms(False)
            return run

        ms = elapsed_ms([ours, flash(True), flash(False)])
        flops = 10 * batch * heads * seq * seq * dim / (2 if causal else 1)
        report("speed", True, case=f"{batch} x {heads}/{heads_kv} x {seq} x {dim} {mask}",
               ours_ms=round(ms[0], 3), tflops=round(flops / ms[0] / 1e9), flash_det_ms=round(
                   ms[1], 3), flash_ms=round(ms[2], 3))


@check
def profile():
    """One shape's phases, measured through the library."""
    from stagger import machines
    path = machines.calibrate(pathlib.Path(tempfile.mkdtemp()) / "machine.json", shapes=[(64, 128)],
                              memory=False, say=lambda line: None)
    kernels = json.loads(path.read_text())["kernels"]
    plan = stagger.Plan("causal", "auto", seq_q=2048, heads=32, head_dim=64, dtype="bf16",
                        machine=f"@{path}")
    report("profile", len(kernels) == 1 and plan.predicted_ns > 0, kernel=kernels[0]["kernel"],
           compute_ns=kernels[0]["ns"]["compute"]["value"], auto=plan.schedule)
