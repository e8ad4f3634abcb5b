"""Gradients beside double precision and beside torch's flash backward."""

import itertools
import math
import random

import torch

import stagger

from support import (UNIT, attended, bits_of, check, errors_of, exact, flash_gradients, gradients,
                     raw_call, report, same, tensors, within)

LAYOUTS = {"bshd": (0, 1, 2, 3), "bhsd": (0, 2, 1, 3), "sbhd": (1, 0, 2, 3)}


def pairwise(cases, count, sampled=200):
    """So many of the cases, in which every two values that some case has together are together."""
    draw, chosen = random.Random(0), []

    def pairs(case):
        return {(*ends, case[ends[0]], case[ends[1]])
                for ends in itertools.combinations(range(len(case)), 2)}

    left = set().union(*map(pairs, cases))
    while left:
        pool = draw.sample(cases, min(sampled, len(cases)))
        best = max(pool, key=lambda case: len(pairs(case) & left))
        chosen += [best] if pairs(best) & left else []
        left -= pairs(best)
    return chosen + draw.sample(cases, count - len(chosen))


def documents_of(seq):
    return "document:lengths=" + "+".join(
        str(each) for each in (-(-seq // 3), seq // 3, seq - seq // 3 - -(-seq // 3)) if each)


def in_layout(made, layout, **arguments):
    """Gradients of (B, S, H, D) tensors that lie as a layout has them; "packed": slices of one."""
    q, k, v, d_out = made
    if layout != "packed":
        axes = LAYOUTS[layout]
        moved = [each.permute(axes).contiguous() for each in made]
        back = [axes.index(axis) for axis in range(4)]
        return [each.permute(back) for each in gradients(*moved, layout=layout, **arguments)]
    if q.shape[1] == k.shape[1]:
        q, k, v = torch.cat([q, k, v], 2).split([x.shape[2] for x in (q, k, v)], 2)
    else:
        k, v = torch.cat([k, v], 2).split(k.shape[2], 2)
    return gradients(q, k, v, d_out, **arguments)


@check
def numbers():
    """150 cases of dtypes, heads, layouts, masks, lengths and sizes of numbers, with all pairs of
    those: errors against double precision, and beside those of torch's flash backward."""
    cases = [case for case in itertools.product(
        (64, 128), (torch.bfloat16, torch.float16), (*LAYOUTS, "packed"), (8, 4, 2, 1),
        ("causal", "full", "sliding:left=255,right=0", "document"),
        ((1, 1), (17, 17), (129, 129), (300, 1000), (1000, 1000), (4096, 4096)), (0.25, 1.0, 4.0))
        if case[4] != "document" or case[5][0] == case[5][1]]
    worst, ratio, failed = 0.0, 0.0, []
    for number, case in enumerate(pairwise(cases, 150)):
        dim, dtype, layout, heads_kv, mask, (seq_q, seq_kv), size = case
        if mask == "document":
            mask = documents_of(seq_q) + ",causal=true"
        made = tensors(1 if seq_q > 1000 else 2, seq_q, 8, dim, dtype, seq_kv, heads_kv, number,
                       size)
        right = exact(*made, mask)
        got = in_layout(made, layout, mask=mask, forward="flash")
        rows = dim + max(seq_q, seq_kv)
        bound = 8 * 2.0**-24 * math.sqrt(rows) + 7 * UNIT[dtype]
        if dtype == torch.float16:
            bound += 6 * 2.0**-25 * max(seq_q, seq_kv)
        # A gradient that cancels to nothing (one key: dS = 0) has rounding errors alone.
        counted = [float(each.norm()) > 1e-6 for each in right]
        ours = [error * count for error, count in zip(errors_of(got, right), counted)]
        worst = max(worst, max(ours) / bound)
        theirs = errors_of(flash_gradients(*made, mask), right)
        beside = max((a / b for a, b, count in zip(ours, theirs, counted) if count and b > 0),
                     default=0.0)
        ratio = max(ratio, beside)
        if beside > 1.25 or not all(error <= bound for error in ours):  # NaN too
            failed.append((*map(str, case), round(beside, 3), ours))
    report("numbers", not failed, cases=150, of_bound=round(worst, 3), times_flash=round(ratio, 3),
           failures=len(failed), failed=failed[:3])


@within(240)
def long_rows():
    """4,096 tokens: errors against double precision, of both head_dims, dtypes and masks."""
    for dim, dtype, (heads, heads_kv), mask in (
            (64, torch.bfloat16, (2, 2), "causal"), (128, torch.bfloat16, (4, 1), "causal"),
            (64, torch.float16, (2, 1), "full"), (128, torch.float16, (2, 2), "causal"),
            (128, torch.bfloat16, (2, 2), "sliding:left=255,right=0"),
            (128, torch.bfloat16, (8, 1), "full"),
            (64, torch.bfloat16, (2, 2), "document:lengths=1000+2096+1000,causal=true")):
        q, k, v, d_out = tensors(1, 4096, heads, dim, dtype, heads_kv=heads_kv, seed=dim)
        got = gradients(q, k, v, d_out, mask=mask, forward="flash")
        bound = 8 * 2.0**-24 * math.sqrt(dim + 4096) + 7 * UNIT[dtype]
        if dtype == torch.float16:
            bound += 6 * 2.0**-25 * 4096
        worst = max(errors_of(got, exact(q, k, v, d_out, mask)))
        report("long_rows", worst <= bound, case=f"{heads}/{heads_kv} x 4096 x {dim} {mask}",
               dtype=dtype, of_bound=round(worst / bound, 3))


@check
def other_masks():
    """Masks whose forward pass is the reference, and rows that see nothing."""
    for mask in ("document:lengths=100+300+112,causal=true", "prefix:length=200"):
        q, k, v, d_out = tensors(1, 512, 2, 64)
        got = gradients(q, k, v, d_out, mask=mask)
        error = max(errors_of(got, exact(q, k, v, d_out, mask)))
        report("other_masks", error < 7 * 2.0**-8, mask=mask, error=f"{error:.1e}")
    for mask in ("document:lengths=700+1+323,causal=true", "document:lengths=500+524"):
        q, k, v, _ = tensors(2, 1024, 4, 128, heads_kv=2)
        by_flash, by_hand = (stagger.attention(q, k, v, mask=mask, forward=how, return_lse=True)
                             for how in ("auto", "reference"))
        apart = [(a.float() - b.float()).abs().max().item() for a, b in zip(by_flash, by_hand)]
        report("other_masks", apart[0] < 0.05 and apart[1] < 1e-3, mask=mask, forward="flash",
               apart=[f"{each:.1e}" for each in apart])
    q, k, v, d_out = tensors(1, 300, 2, 64, seq_kv=130)
    out, lse = torch.ops.stagger.forward(q, k, v, "causal", "auto", 0.125, "bshd", "reference", -1,
                                         False)
    empty = torch.isinf(lse)
    both = [bits_of(stagger.attention_backward(d_out, q, k, v, out, torch.where(
        empty, torch.full_like(lse, value), lse))) for value in (math.inf, -math.inf)]
    dq = both[0][0].view(torch.bfloat16)
    report("other_masks", same(*both) and int(empty.sum()) == 340 and
           not dq[:, :170].any() and torch.isfinite(dq).all(), empty_rows=int(empty.sum()))
    error = max(errors_of(stagger.attention_backward(d_out, q, k, v, out, lse),
                          exact(q, k, v, d_out, "causal")))
    report("other_masks", error < 7 * 2.0**-8, mask="causal, 300 x 130", error=f"{error:.1e}")
    # Keys that nobody sees have no gradient, whatever was in its memory.
    q, k, v, d_out = tensors(1, 128, 2, 64, seq_kv=1024)
    got = gradients(q, k, v, d_out, mask="sliding:left=63,right=0")
    report("other_masks", not got[1][:, :512].any() and not got[2][:, :512].any(),
           unseen_keys="have zeros")


@check
def several_ranges():
    """Masks of several ranges, of keys and of queries, with a forward pass of one's own."""
    query, key = (torch.arange(700, device="cuda").view(shape) for shape in ((-1, 1), (1, -1)))
    tokens = torch.isin(torch.arange(700, device="cuda"),
                        torch.tensor([0, 130, 300], device="cuda"))
    for mask, seen in (
            ("sliding:left=100,right=0 | global:first=4 & causal",
             (key <= query) & ((key >= query - 100) | (key < 4))),
            ("sliding:left=30,right=30 | global:tokens=0+130+300,symmetric=true",
             ((query - key).abs() <= 30) | tokens[:, None] | tokens[None, :])):
        for dim, heads_kv in ((64, 4), (128, 2)):
            q, k, v, d_out = tensors(2, 700, 4, dim, heads_kv=heads_kv)
            out, lse = attended(q, k, v, seen)
            runs = [stagger.attention_backward(d_out, q, k, v, out, lse, mask=mask)
                    for _ in range(2)]
            error = max(errors_of(runs[0], exact(q, k, v, d_out, mask, seen)))
            report("several_ranges", error < 7 * 2.0**-8 and same(*map(bits_of, runs)), mask=mask,
                   head_dim=dim, heads_kv=heads_kv, error=f"{error:.1e}")


@check
def spans():
    """Chains of one, some and all heads of a KV head: gradients, and zeros where nobody looks."""
    for dim, heads, heads_kv, mask, (seq_q, seq_kv) in (
            (64, 8, 2, "causal", (1000, 1000)), (128, 8, 1, "full", (300, 700)),
            (128, 6, 2, "sliding:left=63,right=0", (128, 1024)), (64, 6, 1, "causal", (700, 130))):
        q, k, v, d_out = tensors(2, seq_q, heads, dim, seq_kv=seq_kv, heads_kv=heads_kv)
        out, lse = torch.ops.stagger.forward(q, k, v, mask, "auto", dim**-0.5, "bshd", "reference",
                                             -1, False)
        right = exact(q, k, v, d_out, mask)
        group = heads // heads_kv
        for span, tile_q in itertools.product(range(1, group + 1), (64, 80, 128)):
            if group % span:
                continue
            plan = stagger.Plan(mask, "lpt-descending", seq_q=seq_q, seq_kv=seq_kv, batch=2,
                                heads=heads, heads_kv=heads_kv, span=span, head_dim=dim,
                                dtype="bf16", tile_q=tile_q)
            space = torch.full((plan.workspace_bytes + 512,), 0xFF, dtype=torch.uint8,
                               device="cuda")
            grads, whole = raw_call(plan, (q, k, v, d_out, out, lse), space)
            worst = max(errors_of(grads, right))
            zeros = mask[0] != "s" or not (grads[1][:, :512].any() or grads[2][:, :512].any())
            report("spans", plan.span == span and whole and zeros and worst < 7 * 2.0**-8,
                   case=f"{heads}/{heads_kv} x {seq_q} x {seq_kv} x {dim} {mask}", span=span,
                   tile_q=tile_q, error=f"{worst:.1e}")


@within(60)
def many_heads():
    """More heads than a grid's second dimension has blocks: right at both ends."""
    q, k, v, d_out = tensors(70_000, 16, 1, 64)
    seen = torch.ones(16, 16, dtype=torch.bool, device="cuda").tril()
    got = stagger.attention_backward(d_out, q, k, v, *attended(q, k, v, seen))
    for part in (slice(0, 3), slice(-3, None)):
        case = [x[part] for x in (q, k, v, d_out)]
        worst = max(errors_of([x[part] for x in got], exact(*case, "causal")))
        report("many_heads", worst < 7 * 2.0**-8, part=part, error=f"{worst:.1e}")
    try:
        stagger.attention(q, k, v)
        said = "nothing"
    except stagger.Unsupported as error:
        said = str(error)
    report("many_heads", "batch entries" in said, said=said[:60])
