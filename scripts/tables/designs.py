"""Other deterministic designs, measured beside predicted."""


def design_cell(entry, what):
    """A ratio measured in a row and rested, what was predicted, and how far that is off."""
    row, rested = (entry["measured"][regime][what] for regime in ("steady", "spaced"))
    said = (entry["predicted"] or {}).get(what) or {}
    model = said.get("times")
    said = " / ".join(f"{said[key]:.2f}" for key in ("lanes", "times") if key in said)
    if row is None:
        return f" | {said} | "
    return f"{row:.2f} / {rested:.2f} | {said} | " + (f"{model / row - 1:+.1%}" if model else "")


def designs_table(data):
    """Each shape's times in a row, and the two ratios that designs predict."""
    columns = {"ordered (stagger)": "stagger", "split (flash, deterministic)": "torch-flash-det",
               "flash": "torch-flash", "two-pass (FlexAttention)": "flex", "cuDNN": "cudnn"}
    lines = [f"{data['device']}, torch {data['torch']}, cuDNN {data['cudnn']}, {data['date']}; ms in "
             "a row. *split / flash* and *two-pass / ordered* are measured in a row / rested. "
             "Predicted of split are its lanes alone / with the bytes of its buffers beside flash's "
             f"time, of two passes what the profile `{data['machine']}` says; the error is the last "
             "prediction's, in a row.", "",
             f"| batch × heads × tokens × head_dim | {' | '.join(columns)} | split / flash | predicted "
             "| error | two-pass / ordered | predicted | error |",
             "|---|" + "--:|" * (len(columns) + 6)]
    for entry in data["cases"]:
        by_name = {result["opponent"]: result for result in entry["results"]}
        cells = [f"{by_name[name]['steady']['ms']:.3f}" if "steady" in by_name.get(name, {}) else ""
                 for name in columns.values()]
        lines.append(f"| {entry['case']['name'].replace(' x ', ' × ')} | {' | '.join(cells)} | "
                     f"{design_cell(entry, 'split')} | {design_cell(entry, 'two_pass')} |")
    return "\n".join(lines) + "\n"
