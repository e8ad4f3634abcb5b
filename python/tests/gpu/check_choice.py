"""What `auto` chooses, beside every schedule that could have been named instead, on random problems."""

import math
import random
import statistics

import torch

import stagger
from stagger.bench import device, protocol

from support import report, tensors, within

SEED = 20611
PROBLEMS = 24
#: What `auto` may lose to the best of the others, and in the median.
MOST_LOST, MEDIAN_LOST = 0.09, 0.01
NAMED = ["spt", "shift", "symmetric-shift", "lpt-descending", "lpt-descending:swizzle=8",
         "windowed:heads=4,q=descending", "windowed:heads=16,q=descending", "balanced"]
#: Each call rests before it: back to back a table is timed by the heat of the one before.
TIMING = protocol.Protocol(rounds=5, spaced_calls=4, rest_ms=5.0, between_ms=5.0)


def documents(dice, seq):
    """Lengths of packed documents, the last one what is left."""
    lengths = []
    while sum(lengths) < seq:
        lengths.append(min(dice.randint(64, max(seq // 3, 64)), seq - sum(lengths)))
    return "document:lengths=" + "+".join(map(str, lengths))


def drawn(dice):
    """batch, tokens, heads, KV heads, head_dim, mask: of a size that takes some milliseconds."""
    while True:
        batch, heads = dice.choice([1, 1, 2, 3, 4, 8]), dice.choice([8, 12, 16, 20, 24, 28, 32, 40])
        seq = dice.choice([64 * dice.randint(8, 200), dice.randint(512, 12800)])
        heads_kv = dice.choice([each for each in range(1, heads + 1) if heads % each == 0])
        mask = dice.choice(["causal", "causal", "full", documents(dice, seq),
                            f"sliding:left={dice.randint(128, seq)},right=0"])
        if 2**27 <= batch * heads * seq * seq <= 2**33:
            return batch, seq, heads, heads_kv, dice.choice([64, 128]), mask


def contenders(problem):
    """Backward passes by the schedules that apply, `auto` first, on tensors of normal numbers."""
    batch, seq, heads, heads_kv, dim, mask = problem
    q, k, v, d_out = tensors(batch, seq, heads, dim, heads_kv=heads_kv)
    out = torch.randn_like(q)
    lse = torch.full((batch, heads, seq), math.log(seq) + 1, device="cuda")

    def by(schedule):
        def backward():
            stagger.attention_backward(d_out, q, k, v, out, lse, mask=mask, schedule=schedule)
        return backward

    found = {}
    for name in ["auto", *NAMED]:
        try:
            by(name)()
            found[name] = by(name)
        except stagger.Unsupported:
            pass  # not for this mask or these sizes
    return found


def rested_ms(clock, functions):
    """Median ms of each, over rounds, in another order each time."""
    names = list(functions)
    rounds = [protocol.one_round(clock, functions, TIMING, "spaced", turn, dict.fromkeys(names, 1.0))
              for turn in range(TIMING.rounds)]
    return {name: statistics.median(each[name].ms for each in rounds) for name in names}


def lost_on(clock, problem):
    """What `auto` takes longer than the best of the others on a problem, as a share; reports it."""
    batch, seq, heads, heads_kv, dim, mask = problem
    ms = rested_ms(clock, contenders(problem))
    others = {name: each for name, each in ms.items() if name != "auto"}
    best = min(others, key=others.get)
    lost = ms["auto"] / others[best] - 1
    report("choice", lost <= MOST_LOST, lost=round(lost, 3), best=best,
           ms={name: round(each, 3) for name, each in ms.items()},
           case=f"{batch} x {heads}/{heads_kv} x {seq} x {dim} {mask[:40]}")
    return lost


@within(300)
def choice():
    """On random problems `auto` loses at most 9 % to eight named schedules, 1 % in the median."""
    dice, lost, rates = random.Random(SEED), [], device.Rates()
    try:
        for _ in range(PROBLEMS):
            lost.append(lost_on(device.CudaClock(rates), drawn(dice)))
    finally:
        rates.close()
    middle = statistics.median(lost)
    report("choice", middle <= MEDIAN_LOST, median=round(middle, 4), worst=round(max(lost), 3),
           problems=len(lost))
