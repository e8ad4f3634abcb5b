"""Computes what `stagger block` and `stagger overlap` print once more, from the dimensions and the
rates in configs/ alone, and compares every number.

Usage: block.py STAGGER SOURCE_DIR
"""

import itertools
import json
import math
import pathlib
import subprocess
import sys

STAGGER, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
compared = 0
wrong = 0


def said(*arguments):
    result = subprocess.run([STAGGER, *map(str, arguments), "--json"], capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"exit {result.returncode}: {arguments}\n{result.stderr}")
    return json.loads(result.stdout)


def check(what, value, expected, near=1e-9):
    global compared, wrong
    compared += 1
    if isinstance(expected, (int, str)) or expected is None:
        good = value == expected
    else:
        good = abs(value - expected) <= near * max(1.0, abs(expected))
    if not good:
        wrong += 1
        print(f"{what}: {value}, not {expected}")


def rate(points, size):
    """Linear in the logarithm of the size, and flat outside."""
    if not isinstance(points, list):
        return points
    if size <= points[0][0]:
        return points[0][1]
    for (low, at_low), (high, at_high) in itertools.pairwise(points):
        if size <= high:
            return at_low + (at_high - at_low) * math.log(size / low) / math.log(high / low)
    return points[-1][1]


def settled(rows_at, throttle):
    """The rows at the clock that the block has at that clock: half way there, again and again."""
    clock = 1.0
    for _ in range(200):
        rows = rows_at(clock)
        reached = sum(flops for flops, _, _ in rows.values()) / 1e9 / sum(
            ms for _, _, ms in rows.values())
        beyond = max(0.0, reached - throttle["above_tflops"])
        clock = (clock + max(0.1, 1 - throttle["ppm"] * beyond / 1e6)) / 2
    return rows, clock


def rates_of(path, load=None):
    """A profile's rates of blocks, those of a load where there are several."""
    rates = json.loads(path.read_text())["block"]
    if not isinstance(rates, list):
        rates = [rates]
    return next(each for each in rates if load in (None, each.get("load")))


def block(model, rates, ops, seq, batch, tp):
    """name and pass -> (flops, bytes, ms), and the clock."""
    throttle = rates.get("throttle", {"above_tflops": 0, "ppm": 0})
    return settled(lambda clock: block_at(model, rates, ops, seq, batch, tp, clock), throttle)


def replaced_at_its_clock(model, rates, ops, seq, batch, tp, backward_at):
    """What the block takes with that attention backward pass, ms by the clock, and its clock."""
    def rows_at(clock):
        rows = block_at(model, rates, ops, seq, batch, tp, clock)
        flops, moved, _ = rows["attention", "backward"]
        rows["attention", "backward"] = flops, moved, backward_at(clock)
        return rows
    throttle = rates.get("throttle", {"above_tflops": 0, "ppm": 0})
    rows, clock = settled(rows_at, throttle)
    return sum(ms for _, _, ms in rows.values()), clock


def block_at(model, rates, ops, seq, batch, tp, clock):
    exposed = rates.get("gemm_exposed_permille", 0) / 1000
    d, h = model["head_dim"], model["hidden"]
    H, Hk, f = model["heads"] // tp, max(1, model["heads_kv"] // tp), model["ffn"] // tp
    experts = model.get("experts", {"count": 1, "active": 1})
    T = seq * batch
    gated = model["activation"] == "swiglu"
    layers = "experts" if experts["count"] > 1 else model["activation"]
    kappa = next(k["permille"] / 1000 for k in rates["kappa_permille"]
                 if k.get("ops", ops) == ops and k.get("layers", layers) == layers)
    pairs = seq * seq  # twice the live ones of a causal mask
    if model["attention"] == "full":
        pairs = 2 * seq * seq
    elif model["attention"] == "sliding" and model["window"] < seq:
        pairs = 2 * sum(min(q + 1, model["window"]) for q in range(seq)) - model["window"]
    rows = {}

    def gemm(name, K, N, count=1, active=1):
        for passed, times in (("forward", 1), ("backward", 2)):
            flops = 2 * times * T * active * K * N
            moved = 2 * times * (T * active * (K + N) + count * K * N)
            copied = moved / rate(rates["copy_tbs"], moved)
            ms = max(flops / rates["gemm_tflops"] / clock + exposed * copied, copied) / 1e9
            rows[name, passed] = flops, moved, ms + 1e-6 * times * count * rates["gemm_t0_ns"]

    def elementwise(name, forward, backward):
        for passed, elements in (("forward", forward), ("backward", backward)):
            moved = 2 * T * elements
            rows[name, passed] = 0, moved, kappa * moved / rate(rates["copy_tbs"], moved) / 1e9

    def attention():
        causal = model["attention"] != "full"
        fits = [a for a in rates["attention"] if a["head_dim"] == d and a["causal"] == causal]
        fits = [a for a in fits if a["name"] == fits[0]["name"]]
        known = {a["heads"] for a in fits if "heads" in a}
        if batch * H not in known and any("heads" not in a for a in fits):
            nearest = None
        else:
            nearest = min(known, key=lambda n: max(n, batch * H) / min(n, batch * H), default=None)
        fits = sorted((a for a in fits if a.get("heads") == nearest), key=lambda a: a["seq"])
        X, Y = T * H * d, T * Hk * d
        for passed, products, moved in (("forward", 2, 2 * (2 * X + 2 * Y) + 4 * T * H),
                                        ("backward", 5, 2 * (4 * X + 4 * Y) + 16 * T * H)):
            flops = products * batch * H * pairs * d
            at = rate([[a["seq"], a[passed + "_tflops"]] for a in fits], seq)
            rows["attention", passed] = flops, moved, flops / at / clock / 1e9

    elementwise("norms and residuals", 9 * h, 8 * h)
    gemm("qkv", h, (H + 2 * Hk) * d)
    if model["rope"]:
        elementwise("rope", 2 * (H + Hk) * d, 2 * (H + Hk) * d)
    attention()
    gemm("o", H * d, h)
    gemm("gate+up" if gated else "up", h, (2 if gated else 1) * f, experts["count"],
         experts["active"])
    elementwise("activation", (3 if gated else 2) * experts["active"] * f,
                (5 if gated else 3) * experts["active"] * f)
    gemm("down", f, h, experts["count"], experts["active"])
    return rows


def check_block(name, machine_name, load, ops, seq, batch, tp, speedup):
    path = SOURCE / f"configs/machines/{machine_name}.json"
    rates = rates_of(path, load)
    under = ["--load", load] if load else []
    model = json.loads((SOURCE / f"configs/models/{name}.json").read_text())
    rows, clock = block(model, rates, ops, seq, batch, tp)
    report = said("block", "--model", name, "--machine", path, *under, "--ops", ops, "--seq", seq,
                  "--batch", batch, "--tp", tp, "--speedup", speedup)
    where = f"{name} {seq} x {batch} on {machine_name} ({load} load)"
    check(f"{where}: load", report["load"], rates.get("load"))
    check(f"{where}: kernels", len(report["kernels"]), len(rows))
    for kernel in report["kernels"]:
        flops, moved, ms = rows[kernel["name"], kernel["pass"]]
        what = f"{where}: {kernel['name']} {kernel['pass']}"
        check(what + " flops", kernel["flops"], flops)
        check(what + " bytes", kernel["bytes"], moved)
        check(what + " ms", kernel["ms"], float(ms))
    total = sum(ms for _, _, ms in rows.values())
    backward = rows["attention", "backward"][2]
    fraction = backward / total
    after = total - backward + backward / speedup
    check(f"{where}: clock", report["clock"], float(clock))
    check(f"{where}: TFLOP/s", report["tflops"],
          sum(flops for flops, _, _ in rows.values()) / 1e9 / total)
    check(f"{where}: total", report["total_ms"], total)
    check(f"{where}: attention", report["attention_backward_ms"], backward)
    check(f"{where}: fraction", report["fraction"], fraction)
    check(f"{where}: most", report["most_block_speedup"], total / (total - backward))
    check(f"{where}: kernel speedup", report["kernel_speedup"], float(speedup))
    check(f"{where}: block speedup", report["block_speedup"],
          1 / (1 - fraction * (1 - 1 / speedup)))
    check(f"{where}: after", report["replaced"]["total_ms"], after)
    check(f"{where}: after's fraction", report["replaced"]["fraction"],
          backward / speedup / after)
    rested = rates.get("throttle", {}).get("rested_permille", 1000) / 1000
    half = max(1e-6, backward / 2)
    alone = said("block", "--model", name, "--machine", path, *under, "--ops", ops, "--seq", seq,
                 "--batch", batch, "--tp", tp, "--new-attn-bwd-ms", f"{half:.9f}",
                 "--rested")["replaced"]
    check(f"{where}: rested", alone["attention_backward_ms"], half / clock / rested, 1e-7)
    settled_ms, own = replaced_at_its_clock(model, rates, ops, seq, batch, tp,
                                            lambda at: half / at / rested)
    check(f"{where}: rested, settled", alone["settled"]["total_ms"], settled_ms, 1e-7)
    check(f"{where}: rested, clock", alone["settled"]["clock"], own, 1e-7)
    settled_ms, clock = replaced_at_its_clock(model, rates, ops, seq, batch, tp,
                                              lambda _: backward / speedup)
    for key, expected in (("clock", clock), ("total_ms", settled_ms),
                          ("block_speedup", total / settled_ms)):
        check(f"{where}: settled {key}", report["replaced"]["settled"][key], float(expected))
    gemms = sum(flops for (kernel, _), (flops, _, _) in rows.items()
                if kernel in ("qkv", "o", "gate+up", "up", "down"))
    check(f"{where}: GEMM FLOPs", report["totals"]["gemm_flops"], gemms)


def eager_ms(model, rates, T, norms):
    """name and pass -> ms, as PyTorch runs elementwise operations; S at the rate of copies by
    bytes an element, B with a repeated operand, P with a part of wider rows, F fused."""
    h, f = model["hidden"], model["ffn"]
    q, k = (T * model[which] * model["head_dim"] for which in ("heads", "heads_kv"))
    experts = model.get("experts", {"count": 1, "active": 1})
    per_expert = T * experts["active"] * f // experts["count"]
    speed = {word[0].upper(): rates["operations"][f"{word}_gelems"]
             for word in ("broadcast", "fused")}
    speed["P"] = rates["operations"]["strided_gelems"]

    def took(elements, operations):
        ms = 0
        for each in operations.split():
            if each[0] == "S":
                moved = int(each[1:]) * elements
                ms += moved / rate(rates["copy_tbs"], moved) / 1e9
            else:
                ms += elements / int(each[1:] or 1) / speed[each[0]] / 1e6
        return ms

    if model["activation"] == "gelu":
        norm, act = ("F", "F F"), ("F", "F")
    else:
        norm = ("S6 S8 S4 B S6 B", "B S6 S2 S6 B S12 S4 B S8 S8 S12 S12 S6")
        norm = norm if norms == "fp32" else ("F", "F F")
        act = ("P P", "S6 P P S8")
    rows = {}
    for passed, which in (("forward", 0), ("backward", 1)):
        rows["norms and residuals", passed] = 2 * took(T * h, norm[which] + " S6")
        rows["rope", passed] = sum(took(each, "B P2 P B S6") for each in (q, k))
        rows["activation", passed] = experts["count"] * took(per_expert, act[which])
    rows["rope", "backward"] += took(q + 2 * k, "S4")
    return rows


def check_eager(name, norms, seq, batch):
    path = SOURCE / "configs/machines/h200.json"
    rates = rates_of(path)
    model = json.loads((SOURCE / f"configs/models/{name}.json").read_text())
    wanted = eager_ms(model, rates, seq * batch, norms)
    report = said("block", "--model", name, "--machine", path, "--norms", norms, "--seq", seq,
                  "--batch", batch, "--attn-fwd-ms", 1, "--attn-bwd-ms", 1)
    least = 0
    for kernel in report["kernels"]:
        if "operations" not in kernel:
            continue
        check(f"{name} {norms} {kernel['name']} {kernel['pass']}", kernel["ms"],
              wanted[kernel["name"], kernel["pass"]])
        least += kernel["bytes"] / rate(rates["copy_tbs"], kernel["bytes"]) / 1e9
    took = sum(kernel["ms"] for kernel in report["kernels"] if "operations" in kernel)
    check(f"{name} {norms} kappa", report["kappa"], took / least)


def overlap(calibration, rounds, bits, heads, seq, batch, d, both):
    c = calibration
    hidden, T, N = heads * d, seq * batch, batch * heads * seq * seq
    mask = batch * heads * seq * -(-seq // 32) * 4

    def longest(limiters, flops, elements, moved, rows=0):
        times = [(flops / l["tflops"] if "tflops" in l else
                  elements * l["ps"] if "ps" in l else moved / l["tbs"])
                 + 1000 * rows * l.get("row_ns", 0) for l in limiters]
        return max(times) / 1e9

    G = longest(c["gemm"], 24 * T * hidden ** 2, 0, 2 * (16 * T * hidden + 12 * hidden ** 2))
    A = longest(c["attention"], 4 * N * d, N, 8 * T * hidden, T * heads)
    rng = next(r for r in c["rng"] if r["rounds"] == rounds and r.get("bits", bits) == bits)
    R = longest(rng["limiters"], 0, N, mask)

    def exposed(way):
        return way["ps"] * N / 1e9 if "ps" in way else way["exposed"] * R

    slow = c["slowdown"]
    room, g, r, drop = slow["room"] * G, slow["gemm"], slow["rng"], slow["dropping"]
    if r * R <= g * room:  # the RNG is done before the GEMMs
        gemms, bits_at = room + (g - 1) * min(room, r * R), r * R
    else:
        gemms = g * room
        bits_at = gemms + R - gemms / r
    ready = max(gemms, bits_at)
    result = {"elements": N, "mask_bytes": mask, "gemm_ms": G, "attention_ms": A, "rng_ms": R,
              "fused_ms": A + exposed(c["fused"]["forward"]), "gemm_slowed_ms": gemms,
              "rng_slowed_ms": bits_at, "attention_dropping_ms": drop * A, "x": seq / heads}
    result["baseline_ms"] = G + result["fused_ms"]
    result["overlap_ms"] = ready + drop * A
    if both:
        B = longest(c["attention_backward"], 10 * N * d, N, 16 * T * hidden, T * heads)
        result["baseline_ms"] += 2 * G + B + exposed(c["fused"]["backward"])
        result["overlap_ms"] += 2 * G + B + (drop - 1) * A
    result["speedup"] = result["baseline_ms"] / result["overlap_ms"]
    result["region"] = 1 if r * R < room / 2 else 2 if r * R < room else 3
    return result


def check_overlap(name, rounds, bits, heads, seq, batch, d, both):
    calibration = json.loads((SOURCE / f"configs/overlap/{name}.json").read_text())
    expected = overlap(calibration, rounds, bits, heads, seq, batch, d, both)
    report = said("overlap", "--calibration", name, "--philox", rounds, "--bits", bits, "--heads",
                  heads, "--seq", seq, "--batch", batch, "--head-dim", d, "--pass",
                  "both" if both else "forward")
    for key, value in expected.items():
        check(f"{name} h{heads} s{seq} b{batch} d{d} both={both}: {key}", report[key], value)
    check("streams", report["streams"][1]["spans"][-1]["end_ms"],
          report["gemm_slowed_ms"] + report["rng_exposed_ms"] + report["attention_dropping_ms"])


def check_borders():
    """The paper's, by bisection on S(x) and on its parts."""
    calibration = json.loads((SOURCE / "configs/overlap/paper.json").read_text())
    report = said("overlap", "--x", 148)

    def at(x):  # in units of heads of 1024: tokens are x times that
        return overlap(calibration, 7, 8, 1024, x * 1024, 1, 128, False)

    def first(low, high, holds):
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if holds(at(middle)) else (middle, high)
        return high

    borders = report["borders"]
    # -(-s // 32) of a float is one too, and mask bytes limit nothing here.
    check("region 2", borders["region_2"], first(1, 500, lambda o: o["region"] >= 2), 1e-6)
    check("region 3", borders["region_3"], first(1, 500, lambda o: o["region"] >= 3), 1e-6)
    check("break even", borders["break_even"], first(200, 2000, lambda o: o["speedup"] < 1), 1e-6)
    check("ranges that lose", len(borders["losing"]), 1)
    check("loses from there", borders["losing"][0]["from"], borders["break_even"])
    check("loses for ever", borders["losing"][0]["to"], None)
    speedups = {x: at(x)["speedup"] for x in range(1, 600)}
    peak = max(speedups, key=speedups.get)
    check("peak", report["peak"]["x"], peak)
    check("peak's speedup", report["peak"]["speedup"], speedups[peak])
    check("S(148)", report["speedup"], speedups[148])
    for x, expected in ((64 / 3, 1.0594), (64, 1.1414), (1024 / 3, 1.0587), (148, 1.2335)):
        check(f"the paper's S({x})", said("overlap", "--x", x)["speedup"], expected, 5e-4)
    for x in (3.5, 21, 100, 150, 700):
        check(f"S({x})", said("overlap", "--x", x)["speedup"], at(x)["speedup"], 1e-7)


def check_sweep():
    calibration = json.loads((SOURCE / "configs/overlap/paper.json").read_text())
    report = said("overlap", "--sweep", "seq=2048:65536,heads=48,128")
    shapes = [(heads, 2048 << octave) for heads in (48, 128) for octave in range(6)]
    check("points", len(report["sweep"]), len(shapes))
    for point, (heads, seq) in zip(report["sweep"], shapes):
        for key, value in overlap(calibration, 7, 8, heads, seq, 1, 128, False).items():
            check(f"sweep h{heads} s{seq}: {key}", point[key], value)


def check_dropout():
    for p, bits in ((0.1, 8), (0.5, 8), (0.1, 32), (0.15, 3), (0, 8)):
        report = said("overlap", "--x", 1, "--dropout", p, "--bits", bits)["dropout"]
        best = min(range(1, 2 ** bits + 1), key=lambda t: abs(t / 2 ** bits - (1 - p))) \
            if bits < 16 else round((1 - p) * 2 ** bits)
        check(f"threshold of {p} in {bits} bits", report["threshold"], best)
        check(f"bias of {p} in {bits} bits", report["bias"], best / 2 ** bits / (1 - p) - 1)


for name, seq, batch, tp, speedup in (
        ("llama3-8b", 8192, 1, 1, 1.259), ("llama3-8b", 16384, 1, 1, 3.14),
        ("llama3-8b", 512, 3, 4, 2), ("qwen2.5-7b", 16384, 1, 1, 1.284),
        ("mixtral-8x7b", 8192, 1, 2, 1.2), ("mistral-7b", 8192, 1, 1, 1.5),
        ("mistral-7b", 2048, 2, 1, 1.5), ("llada-1b", 4096, 16, 1, 1.208),
        ("llada-8b", 4096, 16, 1, 1.056), ("sam-h", 4096, 16, 1, 0.5),
        ("sd3.5-large", 4096, 16, 1, 1.208), ("sd3.5-medium", 4096, 16, 1, 1.208),
        ("llama3-8b", 1, 1, 1, 2)):
    for load in (None, "sustained"):
        check_block(name, "h200", load, "eager", seq, batch, tp, speedup)
    check_block(name, "h800", None, "compiled", seq, batch, tp, speedup)
    for norms in ("fused", "fp32"):
        check_eager(name, norms, seq, batch)
for name, rounds, bits in (("paper", 7, 8), ("paper", 3, 8), ("h200-fa2", 5, 32),
                           ("h200-cudnn", 10, 8), ("h200-stagger", 7, 8),
                           ("h100-stagger", 7, 32)):
    for heads, seq, batch, d, both in ((64, 4096, 1, 128, False), (48, 16384, 1, 128, True),
                                       (96, 2048, 4, 128, False), (5, 333, 3, 64, True),
                                       (1, 1, 1, 1, False), (16, 65536, 1, 96, False)):
        check_overlap(name, rounds, bits, heads, seq, batch, d, both)
check_borders()
check_sweep()
check_dropout()
print(f"{compared} numbers, {wrong} wrong")
sys.exit(wrong > 0 or compared < 1000)
