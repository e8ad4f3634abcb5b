"""References in plain numpy, which share no code with the library: attention and its gradients in
double precision, and a player of tables.

The player runs the lanes of a table one step at a time with a lock for every dQ tile, in float32.
It refuses what would hang, and what is not complete.
"""

import numpy as np


def visible(mask, seq_q, seq_kv):
    """Which keys a query sees: bool[seq_q, seq_kv]. Knows causal, full and sliding masks, as dicts
    or words, and boolean arrays."""
    if isinstance(mask, np.ndarray):
        return mask.astype(bool)
    kind, _, rest = mask.partition(":") if isinstance(mask, str) else (mask["kind"], "", "")
    keys = dict(pair.split("=") for pair in rest.split(",") if pair) \
        if isinstance(mask, str) else dict(mask)
    query = np.arange(seq_q)[:, None] + seq_kv - seq_q  # both end together
    key = np.arange(seq_kv)[None, :]
    if kind == "full":
        return np.ones((seq_q, seq_kv), bool)
    if kind == "causal":
        return key <= query
    if kind == "sliding":
        left, right = int(keys.get("left", -1)), int(keys.get("right", -1))
        seen = np.ones((seq_q, seq_kv), bool)
        if left >= 0:
            seen &= key >= query - left
        if right >= 0:
            seen &= key <= query + right
        return seen
    raise ValueError(f"no reference for a {kind} mask")


def forward(q, k, v, mask="causal"):
    """out and lse in double precision: q (B, Sq, Hq, D), k and v (B, Skv, Hkv, D); lse (B, Hq, Sq),
    +inf for a query that sees nothing."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    k, v = _of_heads(k, q.shape[2]), _of_heads(v, q.shape[2])
    seen = visible(mask, q.shape[1], k.shape[1])
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[3])
    scores = np.where(seen, scores, -np.inf)
    most = np.where(seen.any(1), scores.max(-1), 0)
    with np.errstate(divide="ignore"):
        lse = most + np.log(np.exp(scores - most[..., None]).sum(-1))
    lse = np.where(seen.any(1), lse, np.inf)
    return np.einsum("bhqk,bkhd->bqhd", np.exp(scores - lse[..., None]), v), lse


def gradients(q, k, v, d_out, mask="causal"):
    """dq, dk, dv in double precision, without tiles."""
    q, k, v, d_out = (np.asarray(x, np.float64) for x in (q, k, v, d_out))
    heads_kv, scale = k.shape[2], 1 / np.sqrt(q.shape[3])
    out, lse = forward(q, k, v, mask)
    k, v = _of_heads(k, q.shape[2]), _of_heads(v, q.shape[2])
    seen = visible(mask, q.shape[1], k.shape[1])
    scores = np.where(seen, np.einsum("bqhd,bkhd->bhqk", q, k) * scale, -np.inf)
    p = np.exp(scores - lse[..., None])
    dp = np.einsum("bqhd,bkhd->bhqk", d_out, v)
    ds = p * (dp - np.einsum("bqhd,bqhd->bhq", d_out, out)[..., None]) * scale
    dk = np.einsum("bhqk,bqhd->bkhd", ds, q)
    dv = np.einsum("bhqk,bqhd->bkhd", p, d_out)
    return np.einsum("bhqk,bkhd->bqhd", ds, k), _of_groups(dk, heads_kv), _of_groups(dv, heads_kv)


def _of_heads(x, heads):
    return np.repeat(x, heads // x.shape[2], axis=2)


def _of_groups(x, heads_kv):
    batch, rows, heads, dim = x.shape
    return x.reshape(batch, rows, heads_kv, heads // heads_kv, dim).sum(3)


class Broken(Exception):
    """A table that cannot be played to its end."""


def play(slots, lane_begin, live, partials=None, span=1):
    """Plays a table of `live` bool[heads, kv, q] tiles, whose chains have `span` heads: a round
    gives every lane one try. Returns the accumulation order {(head, q): [kv, ...]}; with `partials`
    {(head, kv, q): array} also dQ's sums in float32, {(head, q): array}. Raises Broken if tasks are
    missing, doubled or dead, if a chain is split, or if lanes wait for each other."""
    tasks = [tuple(int(x) for x in slot[:3]) for slot in slots]
    if len(set(tasks)) != len(tasks):
        raise Broken("a task is there twice")
    wanted = set(zip(*(x.tolist() for x in np.nonzero(live))))
    if set(tasks) != wanted:
        raise Broken(f"{len(wanted - set(tasks))} tasks are missing, "
                     f"{len(set(tasks) - wanted)} are of no live tile")
    lanes = [list(range(int(begin), int(end)))
             for begin, end in zip(lane_begin[:-1], lane_begin[1:])]
    _check_chains(tasks, lanes, span)
    lock, order, sums = {}, {}, {}
    while any(lanes):
        moved = False
        for lane in lanes:
            if not lane:
                continue
            head, kv, q = tasks[lane[0]]
            if lock.get((head, q), 0) != int(slots[lane[0]][3]):
                continue
            order.setdefault((head, q), []).append(kv)
            if partials is not None:
                part = np.asarray(partials[head, kv, q], np.float32)
                sums[head, q] = part if (head, q) not in sums else sums[head, q] + part
            lock[head, q] = lock.get((head, q), 0) + 1
            lane.pop(0)
            moved = True
        if not moved:
            raise Broken("lanes wait for each other, or for a rank that never comes")
    return order if partials is None else (order, sums)


def _check_chains(tasks, lanes, span):
    ended = set()
    for lane in lanes:
        before = None
        for place in lane:
            head, kv, _ = tasks[place]
            chain = (head // span, kv)
            if chain != before:
                if chain in ended:
                    raise Broken(f"the chain of head {head}, KV tile {kv} is split")
                ended.add(chain)
            before = chain
