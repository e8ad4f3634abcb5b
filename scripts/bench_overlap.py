#!/usr/bin/env python3
"""Dropout bits behind GEMMs, for real: what `stagger calibrate --overlap` measures, and beside it
what PyTorch's GEMMs and attention take for the same shapes.

    scripts/bench_overlap.py --stagger build/release/stagger --output gpu/results/overlap.json \\
        --calibration configs/overlap/h200-stagger.json              # needs a GPU and PyTorch
    scripts/gpu_table.py                                             # the tables of that

Of each shape: the four GEMMs in a row by torch.mm (cuBLAS), and attention's forward pass without
and with dropout by cuDNN and by flash; medians of --repeats runs, in a row. The document
(stagger.overlap-bench/1) holds the binary's own (stagger.overlap-runs/1) as `runs`. The exit code is
the binary's where that fails: it checks all that it times.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys

DROPPED = 0.1


def median_ms(call, repeats):
    """What a call takes on the device."""
    import torch
    times = []
    for repeat in range(repeats + 2):  # two warm up
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        if repeat > 1:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


def gemms_ms(heads, head_dim, seq, repeats):
    """The four GEMMs of a block, one behind the other."""
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
    return median_ms(run, repeats)


def attention_ms(heads, head_dim, seq, repeats):
    """Forward passes by backend, without and with dropout; a backend that refuses is left out."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q, k, v = (torch.randn(1, heads, seq, head_dim, device="cuda", dtype=torch.bfloat16)
               for _ in range(3))
    found = {}
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION),
                          ("flash", SDPBackend.FLASH_ATTENTION)):
        def attend(dropped, backend=backend):
            with sdpa_kernel(backend):
                torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=dropped)
        try:
            found[name] = {"without_ms": median_ms(lambda: attend(0.0), repeats),
                           "dropping_ms": median_ms(lambda: attend(DROPPED), repeats)}
        except RuntimeError as error:
            found[name] = {"failed": str(error).splitlines()[0]}
    return found


def measure_torch(runs, repeats):
    import torch
    rows = []
    for shape in runs["shapes"]:
        size = shape["heads"], shape["head_dim"], shape["seq"]
        rows.append({"heads": shape["heads"], "head_dim": shape["head_dim"], "seq": shape["seq"],
                     "gemms_ms": gemms_ms(*size, repeats),
                     "attention": attention_ms(*size, repeats)})
        torch.cuda.empty_cache()
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stagger", default="build/release/stagger", help="the binary")
    parser.add_argument("--calibration", required=True, metavar="FILE",
                        help="where the calibration goes")
    parser.add_argument("--output", required=True, metavar="FILE", help="where the document goes")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    command = [args.stagger, "calibrate", "--device", "cuda", "--overlap", "--json", "-o",
               args.calibration]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    if ran.returncode != 0:
        return ran.returncode
    document = {"schema": "stagger.overlap-bench/1", "date": datetime.date.today().isoformat(),
                "command": " ".join(["scripts/bench_overlap.py", *sys.argv[1:]]),
                "runs": json.loads(ran.stdout)}
    output = pathlib.Path(args.output)
    output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    import torch
    document |= {"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                 "cudnn": torch.backends.cudnn.version(),
                 "torch_ms": measure_torch(document["runs"], args.repeats)}
    output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
