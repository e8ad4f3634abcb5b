"""Chains of several heads: head by head beside all heads of a Q tile, problem by problem."""

import json
import pathlib
import statistics

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROBLEM = ("mask", "seq_q", "seq_kv", "heads", "heads_kv", "tile_q")
FASTER = 0.02  #: by how much less one takes that is called faster


def problems_of(runs):
    """The runs of each problem by (span, head by head?): what was predicted, and what it took, ms."""
    problems = {}
    for run in runs:
        key = json.dumps([run["head_dim"], *(run["problem"][name] for name in PROBLEM),
                          run["dkv"]["auto"]["span"]])
        table = run["dkv"]["span"], "order=head-major" in run["schedule"]["name"]
        problems.setdefault(key, {})[table] = (run["predicted"]["elapsed_ns"] / 1e6,
                                               run["measured"]["rested_ms"])
    return [(json.loads(key)[-1], tables) for key, tables in problems.items()]


def loss(tables, others=()):
    """How much longer that table takes which is predicted to be the fastest, than the fastest, of
    others too."""
    return min(tables)[1] / min(ms for _, ms in [*tables, *others]) - 1


def words(losses):
    return f"{statistics.mean(losses):.1%}, {max(losses):.1%}"


def orders_row(runs):
    runs = list(runs)
    problems = problems_of(runs)
    pairs = [(tables[span, False], tables[span, True]) for _, tables in problems
             for span, head_major in tables if head_major and (span, False) in tables]
    ratios = [head_major[1] / q_major[1] for q_major, head_major in pairs]
    of_rule = [loss([each for (span, _), each in tables.items() if span == rule], tables.values())
               for rule, tables in problems if (rule, False) in tables]
    return (f"| {runs[0]['device']['name']} | {len(problems)} | {len(pairs)} | "
            f"{sum(ratio < 1 - FASTER for ratio in ratios)} | {1 - min(ratios):.1%} | "
            f"{sum(ratio > 1 + FASTER for ratio in ratios)} | {max(ratios) - 1:.1%} | "
            f"{words([loss(pair) for pair in pairs])} | "
            f"{words([loss(list(tables.values())) for _, tables in problems])} | {words(of_rule)} |")


def orders_table(runs):
    """A row by the device that runs are of: of these and of an H100's, beside which they are."""
    other = (ROOT / "gpu/results/orders_h100.jsonl").read_text(encoding="utf-8")
    lines = ["Head by head beside q-major; *loses*: how much longer the table takes that is predicted to "
             "be the fastest, than the fastest, in the mean and at worst.", "",
             "| device | problems | of several heads a chain | faster | at most by | slower | at most by "
             "| of two orders loses | of all spans loses | of the rule's span loses to all |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    lines += [orders_row(of_one) for of_one in (runs, map(json.loads, other.splitlines()))]
    return "\n".join(lines).replace("%", " %") + "\n"
