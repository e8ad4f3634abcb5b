"""Dropout's bits beside GEMMs."""

import statistics

from .cells import beside


def overlap_heading(data):
    return (f"{data['device']}, torch {data['torch']}, cuDNN {data['cudnn']}, {data['date']}; bf16, "
            f"head_dim 128, full mask; ms, medians {data.get('timed', 'in a row')}.")


def torch_attention(row, name):
    """`3.17 → 7.35`: without dropout, and with it."""
    found = row["attention"].get(name, {})
    if "without_ms" not in found:
        return "–"
    return f"{found['without_ms']:.2f} → {found['dropping_ms']:.2f}"


def at_clock(shape, way, calibration, clock):
    """What the model says of a way to make bits beside GEMMs, where products take as much longer as
    the SMs' clock was below the one that the constants are of; ms."""
    heads, tokens = shape["heads"], shape["seq"]
    pairs, slow = heads * tokens * tokens, calibration["slowdown"]
    gemms = 24 * tokens * (heads * shape["head_dim"]) ** 2 / calibration["gemm"][0]["tflops"] / 1e9
    limiter = calibration["attention"][0]
    attention = 4 * pairs * shape["head_dim"] / limiter["tflops"] / 1e9
    attention += heads * tokens * limiter.get("row_ns", 0) / 1e6
    ps = next(each["limiters"][0]["ps"] for each in calibration["rng"]
              if (each["rounds"], each["bits"]) == (7, 8))
    beside = slow["room"] * gemms
    bits = ps * pairs / 1e9
    behind = max(0, bits - slow["gemm"] * beside / slow["rng"])
    beside += (slow["gemm"] - 1) * min(beside, slow["rng"] * bits)
    return beside * clock / way["clock_ghz"] + behind + slow["dropping"] * attention


def overlap_table(data):
    """Each shape's kernels alone, and both ways to have dropout."""
    runs = data["runs"]
    torch = {(row["heads"], row["seq"]): row for row in data["torch_ms"]}
    lines = [f"{overlap_heading(data)} Baseline: GEMMs, then attention that makes its bits. Overlap: "
             f"bits are made beside the GEMMs, by {runs['way']}, and attention reads them. Errors are "
             "the model's, by the constants of these runs; at its clock, with GEMMs as much longer as "
             "the SMs' clock was lower beside them than in the median.", "",
             "| heads | tokens | GEMMs | cuBLAS | bits | attention | makes bits | reads bits | cuDNN | "
             "flash | baseline | overlap | at its clock | speedup | predicted |", "|" + "--:|" * 15]
    clock = statistics.median(shape["clock_ghz"] for shape in runs["shapes"])
    for shape in runs["shapes"]:
        way = next(each for each in shape["ways"] if each["way"] == runs["way"])
        row = torch[shape["heads"], shape["seq"]]
        speedup = shape["baseline_ms"] / way["overlap_ms"]
        predicted = speedup * (1 + shape["baseline_error"]) / (1 + shape["overlap_error"])
        lines.append(
            f"| {shape['heads']} | {shape['seq']:,} | {shape['gemms_ms']:.2f} | "
            f"{row['gemms_ms']:.2f} | {shape['bits_ms']:.2f} | {shape['attention_ms']:.2f} | "
            f"{shape['attention_makes_ms']:.2f} | {shape['attention_reads_ms']:.2f} | "
            f"{torch_attention(row, 'cudnn')} | {torch_attention(row, 'flash')} | "
            f"{beside(shape['baseline_ms'], shape['baseline_error'])} | "
            f"{beside(way['overlap_ms'], shape['overlap_error'])} | "
            f"{100 * (at_clock(shape, way, runs['calibration'], clock) / way['overlap_ms'] - 1):+.1f}"
            f" % | {speedup:.3f} | {predicted:.3f} |")
    return "\n".join(lines) + "\n"


def overlap_ways_table(data):
    """What each way to make bits beside GEMMs costs both, shape by shape."""
    runs = data["runs"]
    names = [way["way"] for way in runs["shapes"][0]["ways"]]
    lines = ["G is what the GEMMs take, with room and with bits beside them, in parts of the plain "
             "ones' time; R what the bits take beside them, in parts of theirs alone; the clock is an "
             "SM's, beside the plain GEMMs' own.", "",
             "| heads | tokens | clock | " + " | ".join(
                 f"{name}: G with room | G beside | R beside | clock" for name in names) + " |",
             "|--:|--:|--:|" + "--:|" * 4 * len(names)]
    for shape in runs["shapes"]:
        cells = [f"{way['with_room_ms'] / shape['gemms_ms']:.3f} | "
                 f"{way['gemms_ms'] / shape['gemms_ms']:.3f} | {way['rng']:.2f} | "
                 f"{way['clock_ghz']:.2f}" for way in shape["ways"]]
        lines.append(f"| {shape['heads']} | {shape['seq']:,} | {shape['clock_ghz']:.2f} | "
                     f"{' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


#: A round of Philox is 2 IMAD.WIDE and 2 LOP3, each of which a scheduler issues in 2 cycles.
ROUND_CYCLES = 8
WARP_ELEMENTS = 32 * 32
SCHEDULERS_GHZ = 132 * 4 * 1.98


def counted_ratio(ps_of_7, bits, rounds):
    """The time of a word by so many rounds, in parts of the one by 7, from the instructions of a
    round: what a word takes beside its rounds is what is left of 7 rounds' time."""
    calls = 32 * bits // 128
    cycles = ps_of_7 * 1e-3 * WARP_ELEMENTS * SCHEDULERS_GHZ
    return (cycles + (rounds - 7) * calls * ROUND_CYCLES) / cycles


def overlap_rng_table(data):
    """The kernel that makes bits alone, and such kernels behind a GEMM without room."""
    runs = data["runs"]
    rows = {(row["bits"], row["rounds"]): row["ps"] for row in runs["rng"]}
    rounds = sorted({each for _, each in rows}, reverse=True)
    lines = ["ps an element; in parts of 7 rounds; and, in parts of 7 rounds, what instructions say.",
             "", "| random bits | " + " | ".join(f"{each} rounds" for each in rounds) + " |",
             "|--:|" + "--:|" * len(rounds)]
    for bits in sorted({each for each, _ in rows}):
        cells = [f"{rows[bits, each]:.4f} ({rows[bits, each] / rows[bits, 7]:.3f}; "
                 f"{counted_ratio(rows[bits, 7], bits, each):.3f})" for each in rounds]
        lines.append(f"| {bits} | {' | '.join(cells)} |")
    lines += ["", "| CTAs launched behind a GEMM without room | an SM holds | measured ms | crowding law "
              "| error |", "|--:|--:|--:|--:|--:|"]
    for crowd in runs["crowds"]:
        lines.append(f"| {crowd['ctas']} | {crowd['ctas_per_sm']} | {crowd['measured_ms']:.2f} | "
                     f"{crowd['predicted_ms']:.2f} | "
                     f"{100 * (crowd['predicted_ms'] / crowd['measured_ms'] - 1):+.1f} % |")
    return "\n".join(lines) + "\n"
