"""Transformer blocks, measured beside predicted."""

from .cells import beside

# What a row of blocks is called.
ATTENTIONS = {"torch-flash-det": "flash, deterministic", "torch-flash": "flash", "cudnn": "cuDNN"}


def attention_name(row):
    """Torch's by its name, ours with the schedule and what its forward pass is."""
    name = row["attention"]
    if name in ATTENTIONS:
        return ATTENTIONS[name]
    words, _, forward = name.partition(":")[2].partition("+")
    schedule = row.get("plan", {}).get("schedule", words)
    chosen = words if schedule == words else f"{words} ({schedule})"
    return f"ours, {chosen}" + (", behind cuDNN's forward pass" if forward else "")


def block_prediction(row):
    """What is predicted of a block: of ours by its plan, else by its schedule."""
    predicted = row.get("predicted", {})
    found = next((predicted[by] for by in ("plan", "schedule", "rates") if by in predicted), None)
    if found is None:
        return "–"
    return beside(found["total_ms"], found["error"]) + ("*" if found["attention_measured"] else "")


def block_fits(row):
    """What rates say that were fitted to all blocks, and without those of its model."""
    found = row.get("fitted", {})
    mark = "*" if found.get("attention_measured") else ""
    return [f"{100 * found[which]['error']:+.1f} %{mark if which == 'held_out' else ''}"
            if found.get(which) else "–" for which in ("fitted", "held_out")]


def block_cells(row):
    rule = row.get("rule", {})
    inside = [each["ms"] for each in row.get("regions", ())
              if (each["name"], each["pass"]) == ("attention", "backward")]
    times = row["steady"].get("times")
    return [attention_name(row), f"{row['steady']['ms']:.2f}", f"{row['spaced']['ms']:.2f}",
            f"{times['times']:.2f}" if times else "–", block_prediction(row),
            *block_fits(row), *(beside(rule[f"{by}_ms"], rule[f"{by}_error"]) if f"{by}_ms" in rule else "–"
              for by in ("inside", "settled", "alone")),
            f"{inside[0]:.2f}" if inside else "–",
            f"{row['alone']['steady']['ms']:.2f}" if "alone" in row else "–",
            f"{row['peak_bytes'] / 1e9:.1f}" if row["peak_bytes"] else "–"]


def block_rows(data):
    """(case, row) of what was measured."""
    return [(case, row) for case in data["cases"] for row in case["rows"] if "steady" in row]


def block_table(data):
    under = f" of {data['load']} load" if "load" in data else ""
    lines = [f"{data['device']}, torch {data['torch']}, cuDNN {data['cudnn']}, {data['date']}; ms in "
             "a row, medians; errors are predicted or replaced to measured; predicted by "
             f"the profile's rates{under}, fitted by those that are fitted to these blocks, held out "
             "by rates that the model had no part in; *: with attention's times as measured, where there is no "
             "rate.", "",
             "| block | attention | ms | rested | × flash, deterministic | predicted | fitted | held "
             "out | replaced, by "
             "times within | at its own clock | by times alone | attention backward, within | alone | GB |",
             "|---|---|" + "--:|" * 12]
    for case, row in block_rows(data):
        name = f"{case['model']}, {case['batch']} × {case['seq']:,}"
        name += "" if case["ops"] == "eager" else f", {case['ops']}"
        lines.append(f"| {name} | {' | '.join(block_cells(row))} |")
    return "\n".join(lines) + "\n"


def block_kernels_table(data):
    """The kernels of the first block, by torch's deterministic attention and by ours."""
    case = next(case for case in data["cases"]
                if any("regions" in row for row in case["rows"]))
    rows = {row["attention"]: row for row in case["rows"] if "regions" in row}
    base = rows["torch-flash-det"]
    shown = [base, *[rows[name] for name in ("cudnn", "stagger:auto") if name in rows]]
    predicted = {(each["name"], each["pass"]): each["ms"]
                 for each in base.get("predicted", {}).get("kernels", ())}
    lines = [f"{case['model']}, {case['batch']} × {case['seq']:,}, {case['ops']}; ms.", "",
             f"| pass | kernel | predicted | {' | '.join(map(attention_name, shown))} |",
             "|---|---|" + "--:|" * (1 + len(shown))]
    for place, each in enumerate(base["regions"]):
        key = each["name"], each["pass"]
        cells = [f"{row['regions'][place]['ms']:.3f}" for row in shown]
        lines.append(f"| {each['pass']} | {each['name']} | "
                     f"{format(predicted[key], '.3f') if key in predicted else '–'} | "
                     f"{' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
