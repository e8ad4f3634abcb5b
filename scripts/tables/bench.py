"""Whole backward passes in PyTorch beside others, and trainings."""

# A column, and the opponent of the bench whose times are there.
OPPONENTS = {"stagger": "stagger", "flash, deterministic": "torch-flash-det",
             "flash": "torch-flash", "cuDNN": "cudnn"}


def ratios_beside(data, opponent):
    """How many times as fast as an opponent the kernel is, rested, at the points of the paper's grid
    that it takes; and how many TFLOP/s the kernel does there."""
    ratios, speeds = [], []
    for entry in data["cases"]:
        case = entry["case"]
        by_name = {result["opponent"]: result for result in entry["results"]}
        peer = by_name.get(opponent, {})
        if case["batch"] * case["seq"] == 16384 and case["heads"] * case["dim"] == 2048 and \
                case["heads_kv"] == case["heads"] and not case["window"] and "spaced" in peer:
            ratios.append(peer["spaced"]["stagger"]["times"])
            speeds.append(by_name["stagger"]["spaced"]["tflops"])
    return ratios, speeds


def bench_summary(data):
    flash, speeds = ratios_beside(data, "torch-flash-det")
    cudnn, _ = ratios_beside(data, "cudnn")
    return (f"{data['device']}, bf16, the {len(flash)} points of the paper's grid, on PyTorch's "
            f"tensors in one process: {min(speeds):.0f} to {max(speeds):.0f} TFLOP/s for the whole "
            f"backward pass, {min(flash):.1f} to {max(flash):.1f} times as fast as PyTorch's flash "
            f"backward in deterministic mode, which is FlashAttention-2's, and {min(cudnn):.2f} to "
            f"{max(cudnn):.2f} times as fast as cuDNN's, which has other bits in another run "
            f"([table](gpu/results/torch.md#the-grid)).\n")


def bench_summary_there(data):
    """The summary of another device, behind the first."""
    flash, speeds = ratios_beside(data, "torch-flash-det")
    cudnn, _ = ratios_beside(data, "cudnn")
    return (f"The same on an {data['device'].split()[1]}: {min(speeds):.0f} to {max(speeds):.0f} "
            f"TFLOP/s, {min(flash):.1f} to {max(flash):.1f} and {min(cudnn):.2f} to "
            f"{max(cudnn):.2f} times as fast.\n")


def bench_table(data):
    lines = [f"{data['device']}, torch {data['torch']}, cuDNN {data['cudnn']}, {data['date']}; in a "
             "row / rested; *ratio* is to flash, deterministic.", "",
             f"| batch × heads/KV heads × tokens × head_dim | {' | '.join(OPPONENTS)} | ratio |",
             "|---|" + "--:|" * (len(OPPONENTS) + 1)]
    for entry in data["cases"]:
        by_name = {result["opponent"]: result for result in entry["results"]}
        cells = []
        for opponent in OPPONENTS.values():
            result = by_name.get(opponent, {})
            cells.append(f"{result['steady']['tflops']:.0f} / {result['spaced']['tflops']:.0f}"
                         if "steady" in result else "")
        peer = by_name["torch-flash-det"]
        cells.append(f"{peer['steady']['stagger']['times']:.2f} / "
                     f"{peer['spaced']['stagger']['times']:.2f}" if "steady" in peer else "")
        lines.append(f"| {entry['case']['name'].replace(' x ', ' × ')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def train_table(data):
    """Pairs of training runs: whose attention, how fast, and whether they ended with the same
    bits."""
    runs, lines = data["runs"], [
        f"{data['device']}, torch {data['torch']}, {data['steps']} steps.", "",
        "| runs | attention | deterministic flag | SMs left free | tokens/s | last loss | "
        "weights and moments |", "|---|---|---|---|--:|--:|---|"]
    for pair, step in data["first_difference"].items():
        first, second = (runs[name] for name in pair.split(" = "))
        margins = "" if "margin" not in first else str(first["margin"]) if \
            first["margin"] == second["margin"] else f"{first['margin']} and {second['margin']}"
        resumed = f", resumed at step {second['begin']}" if second["begin"] else ""
        last = max(second["losses"], key=int)
        lines.append(
            f"| {pair}{resumed} | {first['attention']} | {'on' if first['strict'] else 'off'} | "
            f"{margins} | {first['tokens_per_s']:,} | {second['losses'][last]:.4f} | "
            f"{'the same' if step is None else f'differ from step {step} on'} |")
    return "\n".join(lines) + "\n"
