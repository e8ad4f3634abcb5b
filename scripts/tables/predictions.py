"""How right a profile is: file by file, on either side of what L2 holds, and where it is far off."""

#: What a file's runs are.
FILES = {
    "speed": "the [speed grid](speed.md): what `optimize` finds, and named schedules",
    "speed_other": "head_dim 128 of it, causal from 1,024 tokens, on another H200",
    "problems_more": "problems by seeds, three in four of them full, prefixes and documents",
    "problems_other": "problems by seeds, heads that share K and V",
    "problems_128": "problems by seeds, head_dim 128",
    "problems_few": "problems by seeds, on an H200 that no profile knew",
    "problems_dip": "problems by seeds, on another that no profile knew",
    "tiles_small": "head_dim 64 at Q tiles of 64 and 80, on the H200 of `problems_few`",
    "random_more": "random tables of the grid's shapes, on the same",
    "random_dip": "random tables of the grid's shapes, on the H200 of `problems_dip`",
    "random_again": "the first 72 tables of `random.jsonl`",
    "random_long": "random tables from 2,048 tokens",
    "random_128": "random tables at Q tiles of 128",
    "swizzles": "causal L2 swizzles at Q tiles of 128",
    "rings": "rings and orders beside them, full, on 132 SMs and on 128",
    "groups_few": "heads that share K and V, up to 4,096 tokens; parts that end together",
    "grid": "every schedule that needs no search, at every point of the grid",
    "searched": "schedules that search and others; the memory is fitted to these and `grid_slack`",
    "random": "random tables of the grid's shapes, some bad on purpose",
    "random_tiles": "other random tables, Q tiles of 128",
    "random_other": "other random tables, on another H200",
    "problems": "problems by seeds",
    "orders": "chains of two to eight heads, q-major and head by head",
    "windows": "windows of 1 to 64 heads, causal",
    "tiles": "head_dim 128 by Q tiles of 64, 80 and 128",
    "groups": "heads that share K and V",
    "groups_ordered": "parts of a KV tile added in a pass and in order",
    "full": "full masks of 8 to 100 Q tiles",
    "grid_slack": "the grid at Q tiles of 128 and of 64, by tables with slack",
    "grid_h100": "schedules that need no search, at points of the grid; the memory is fitted to these",
    "grid_slack_h100": "the grid at Q tiles of 128, by tables with slack; the memory, too",
    "random_h100": "random tables of the grid's shapes",
    "random_other_h100": "other random tables, on another H100",
    "random_tiles_h100": "random tables at Q tiles of 128",
    "random_tiles_h100_other": "others, on a third H100",
    "problems_h100": "problems by seeds",
    "orders_h100": "chains of two to eight heads, q-major and head by head",
    "groups_h100": "heads that share K and V",
    "tiles_h100": "the grid by Q tiles of 64, 80 and 128, on two H100s",
    "windows_h100": "windows and swizzles, causal; the memory, too",
    "full_h100": "full masks of 8 to 100 Q tiles",
}


def percent(share):
    return f"{100 * share:.1f} %"


def errors(found):
    sizes = " | ".join(percent(found[name]) for name in ("median", "nine_in_ten", "worst"))
    return f"{found['runs']:,} | {sizes} | {100 * found['mean']:+.1f} %"


def row(one):
    whole = one["whole"]
    of_whole = f"{percent(whole['median'])} | {percent(whole['worst'])}" if whole else " | "
    right = one["pairs"] - one["ranked_wrong"]
    name = one["file"].removesuffix(".jsonl")
    today = " *" if one["kernel_of_today"] else ""
    return (f"| `{name}`{today} | {FILES[name]} | {errors(one)} | {right} of {one['pairs']} | {of_whole} |")


def predictions_table(document, machine):
    found = document["machines"][machine]
    rows = {one["file"].removesuffix(".jsonl"): one for one in document["files"]
            if one["machine"] == machine}
    unknown = sorted(set(rows) - set(FILES))
    if unknown:
        raise KeyError(f"scripts/tables/predictions.py does not say what is in {', '.join(unknown)}")
    today = ""
    if found["kernel_of_today"]:
        today = "; * by the kernel as it is, whose masked tiles take less than before 2026-11-29"
    lines = ["Errors from the first task to the last reduction, and of whole passes; *pairs*: "
             f"schedules of one problem that differ by more than 3 %{today}.", "",
             "| file | runs of | runs | median error | nine in ten within | worst | mean "
             "| pairs ranked right | passes: median | worst |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    lines += [row(rows[name]) for name in FILES if name in rows]
    lines += [f"| | **{what}** | {errors(found[name])} | | | |" for name, what in
              (("all", "all"), ("kernel_of_today", "the kernel as it is"),
               ("in_l2", "dQ in flight stays in L2"), ("beyond_l2", "more dQ than L2 holds"))
              if found[name]]
    return "\n".join(lines) + "\n"


def far_row(name, run):
    heads = f"{run['heads']:,}"
    if run["heads_kv"] != run["heads"]:
        heads += f" on {run['heads_kv']:,}"
    return (f"| {100 * run['error']:+.1f} % | `{name}` | {run['schedule']} | {run['mask']}, "
            f"{run['head_dim']}, {run['tokens']:,} × {heads} | {run['tile_q']} "
            f"| {run['dq_in_flight_bytes'] / 1e6:.0f} |")


def far_table(document, machine):
    runs = [(one["file"].removesuffix(".jsonl"), run) for one in document["files"]
            if one["machine"] == machine for run in one["far"]]
    if not runs:
        return "No run is more than 10 % off.\n"
    lines = ["| off by | file | schedule | mask, head_dim, tokens × heads | Q tile | MB of dQ in flight |",
             "|--:|---|---|---|--:|--:|"]
    lines += [far_row(name, run) for name, run in sorted(runs, key=lambda each: -abs(each[1]["error"]))]
    return "\n".join(lines) + "\n"
