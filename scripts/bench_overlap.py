#!/usr/bin/env python3
"""Dropout bits behind GEMMs, for real: what `stagger calibrate --overlap` measures, and beside it
what PyTorch's GEMMs and attention take for the same shapes.

    scripts/bench_overlap.py --stagger build/release/stagger --output gpu/results/overlap.json \\
        --calibration configs/overlap/h200-stagger.json              # needs a GPU and PyTorch
    scripts/gpu_table.py                                             # the tables of that

Of each shape: the four GEMMs in a row by torch.mm (cuBLAS), and behind them attention's forward
pass without and with dropout by cuDNN and by flash; medians, in turns, as the binary has it. The
document (stagger.overlap-bench/1) holds the binary's own (stagger.overlap-runs/1) as `runs`. The
exit code is the binary's where that fails: it checks all that it times.
"""

import argparse
import datetime
import functools
import json
import pathlib
import random
import statistics
import subprocess
import sys

DROPPED = 0.1
LEAST_ROUNDS = 10


def measure_in_turns(calls, least_ms):
    """Medians of what each call takes and what precedes it takes, ms, in turns; a call is by name
    two functions, one behind the other."""
    import torch
    times, elapsed = {name: [] for name in calls}, None
    order, shuffled = list(calls), random.Random(1)
    while elapsed is None or elapsed < least_ms or len(times[order[0]]) < LEAST_ROUNDS:
        shuffled.shuffle(order)
        for name in order:
            events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
            events[0].record()
            for call, end in zip(calls[name], events[1:]):
                call()
                end.record()
            torch.cuda.synchronize()
            if elapsed is not None:
                times[name].append([begin.elapsed_time(end)
                                    for begin, end in zip(events, events[1:])])
                elapsed += events[0].elapsed_time(events[2])
        elapsed = elapsed or 0.0  # the first round warms up
    return {name: [statistics.median(each) for each in zip(*found)]
            for name, found in times.items()}


def gemms_of(heads, head_dim, seq):
    """A call that runs the four GEMMs of a block, one behind the other."""
    import torch
    hidden = heads * head_dim
    shapes = [(3 * hidden, hidden), (hidden, hidden), (4 * hidden, hidden), (hidden, 4 * hidden)]

    def normal(rows, columns):
        return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
    inputs = {depth: normal(seq, depth) for _, depth in shapes}
    calls = [(inputs[depth], normal(wide, depth).t(),
              torch.empty(seq, wide, device="cuda", dtype=torch.bfloat16)) for wide, depth in shapes]

    def run():
        for left, right, out in calls:
            torch.mm(left, right, out=out)
    return run


def torch_ms(heads, head_dim, seq, least_ms):
    """GEMMs, and forward passes by backend behind them, without and with dropout; a backend that
    refuses is left out."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    gemms = gemms_of(heads, head_dim, seq)
    q, k, v = (torch.randn(1, heads, seq, head_dim, device="cuda", dtype=torch.bfloat16)
               for _ in range(3))
    calls, found = {}, {}
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION),
                          ("flash", SDPBackend.FLASH_ATTENTION)):
        def attend(dropped, backend=backend):
            with sdpa_kernel(backend):
                torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=dropped)
        try:
            attend(DROPPED)
        except RuntimeError as error:
            found[name] = {"failed": str(error).splitlines()[0]}
            continue
        calls[name, "without_ms"] = gemms, functools.partial(attend, 0.0)
        calls[name, "dropping_ms"] = gemms, functools.partial(attend, DROPPED)
    if not calls:
        sys.exit("torch has no attention with dropout here: "
                 + "; ".join(f"{name}: {each['failed']}" for name, each in found.items()))
    medians = measure_in_turns(calls, least_ms)
    for (name, which), (_, attention) in medians.items():
        found.setdefault(name, {})[which] = attention
    before = [gemms_ms for (_, which), (gemms_ms, _) in medians.items() if which == "dropping_ms"]
    return {"gemms_ms": statistics.median(before), "attention": found}


def measure_torch(runs, least_ms):
    import torch
    rows = []
    for shape in runs["shapes"]:
        size = {key: shape[key] for key in ("heads", "head_dim", "seq")}
        rows.append({**size, **torch_ms(*size.values(), least_ms)})
        torch.cuda.empty_cache()
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stagger", default="build/release/stagger", help="the binary")
    parser.add_argument("--calibration", required=True, metavar="FILE",
                        help="where the calibration goes")
    parser.add_argument("--output", required=True, metavar="FILE", help="where the document goes")
    parser.add_argument("--least-ms", type=float, default=1500, metavar="MS",
                        help="for which each shape is run by torch")
    args = parser.parse_args()
    command = [args.stagger, "calibrate", "--device", "cuda", "--overlap", "--json", "-o",
               args.calibration]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    if ran.returncode != 0:
        return ran.returncode
    document = {"schema": "stagger.overlap-bench/1", "date": datetime.date.today().isoformat(),
                "command": " ".join(["scripts/bench_overlap.py", *sys.argv[1:]]),
                "timed": "in turns", "runs": json.loads(ran.stdout)}
    output = pathlib.Path(args.output)
    output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    import torch
    document |= {"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                 "cudnn": torch.backends.cudnn.version(),
                 "torch_ms": measure_torch(document["runs"], args.least_ms)}
    output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
