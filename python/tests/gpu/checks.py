"""What needs torch and a Hopper GPU: numbers beside double precision and torch's own kernels, bits
under every condition, refusals. Prints a line for each check, and a JSON document last.

    python3 python/tests/gpu/checks.py [NAME]...     exit code 0, 1, or 77 without a GPU
    python3 python/tests/gpu/checks.py --list        names, the most seconds of each, what they are

Every wait of the kernels has a deadline, and every check: a check that is not done by then ends the
process, with where it was.
"""

import ctypes
import faulthandler
import itertools
import json
import math
import os
import pathlib
import random
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

try:
    import numpy
    import torch
except ImportError:
    torch = None
if torch is None or ("--list" not in sys.argv and (
        not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9)):
    print("SKIPPED: no torch with a GPU of compute capability 9.0")
    sys.exit(77)

import stagger  # noqa: E402
from stagger import _lib  # noqa: E402
from stagger.torch import forward as forwards  # noqa: E402
from stagger.torch import runtime  # noqa: E402

UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
#: Seconds after which a check that says nothing else is taken for one that hangs.
SECONDS = 180
CHECKS, LIMITS, RESULTS = {}, {}, []


def check(function, seconds=SECONDS):
    CHECKS[function.__name__], LIMITS[function.__name__] = function, seconds
    return function


def within(seconds):
    """A check with so many seconds."""
    return lambda function: check(function, seconds)


def report(name, passed, **facts):
    RESULTS.append({"check": name, "passed": bool(passed), **facts})
    words = ", ".join(f"{key} {value}" for key, value in facts.items())
    print(f"{'ok' if passed else 'FAILED':<7}{name}: {words}", flush=True)


def tensors(batch, seq_q, heads, dim, dtype=torch.bfloat16, seq_kv=None, heads_kv=None, seed=0,
            size=1.0):
    """q, k, v, d_out (B, S, H, D) of normal numbers."""
    generator = torch.Generator("cuda").manual_seed(seed)
    seq_kv, heads_kv = seq_kv or seq_q, heads_kv or heads
    shapes = [(batch, seq_q, heads, dim), (batch, seq_kv, heads_kv, dim),
              (batch, seq_kv, heads_kv, dim), (batch, seq_q, heads, dim)]
    return [(size * torch.randn(shape, generator=generator, device="cuda")).to(dtype)
            for shape in shapes]


def exact(q, k, v, d_out, mask, seen=None):
    """Gradients in double precision, a batch entry and head at a time. `seen`: of a mask that is
    not spelled here."""
    group, scale = q.shape[2] // k.shape[2], q.shape[3] ** -0.5
    if seen is None:
        seen = forwards.visible(mask, q.shape[1], k.shape[1], q.device)
    dq, dk, dv = (torch.zeros(x.shape, dtype=torch.float64, device="cuda") for x in (q, k, v))
    for entry, head in itertools.product(range(q.shape[0]), range(q.shape[2])):
        at, kv = (entry, slice(None), head), (entry, slice(None), head // group)
        qs, ks, vs, gs = q[at].double(), k[kv].double(), v[kv].double(), d_out[at].double()
        scores = (qs @ ks.T * scale).masked_fill(~seen, -math.inf)
        p = torch.softmax(scores, -1).nan_to_num(0.0)
        delta = (gs * (p @ vs)).sum(-1, keepdim=True)
        ds = p * (gs @ vs.T - delta) * scale
        dq[at] = ds @ ks
        dk[kv] += ds.T @ qs
        dv[kv] += p.T @ gs
    return dq, dk, dv


def errors_of(got, wanted):
    return [((ours.double() - right).norm() / right.norm().clamp_min(1e-9)).item()
            for ours, right in zip(got, wanted)]


def gradients(q, k, v, d_out, **arguments):
    """By autograd, as a user has them."""
    leaves = [each.detach().requires_grad_() for each in (q, k, v)]
    out = stagger.attention(*leaves, **arguments)
    return torch.autograd.grad(out, leaves, d_out)


def bits_of(gradient):
    return [each.contiguous().view(torch.int16).clone() for each in gradient]


def same(left, right):
    return all(torch.equal(a, b) for a, b in zip(left, right))


def same_replays(run, bits, times):
    """How many of so many replays of a graph of run() leave these bits."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    equal = 0
    for _ in range(times):
        for each in captured:
            each.fill_(math.nan)
        graph.replay()
        equal += same(bits_of(captured), bits)
    return equal


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


def flash_gradients(q, k, v, d_out, mask):
    """torch's flash backward of the same forward pass, a document at a time."""
    if mask.startswith("document"):
        lengths = [int(each) for each in mask.split("=")[1].split(",")[0].split("+")]
        parts = zip(*(each.split(lengths, 1) for each in (q, k, v, d_out)))
        return [torch.cat(each, 1) for each in zip(
            *(flash_gradients(*part, "causal") for part in parts))]
    causal, left, right = forwards._window(mask)
    group = q.shape[2] // k.shape[2]
    keys, values = (x.repeat_interleave(group, 2) for x in (k, v))
    out, lse, rng, unused = torch.ops.aten._flash_attention_forward(
        q, keys, values, None, None, q.shape[1], k.shape[1], 0.0, causal, False,
        window_size_left=left, window_size_right=right)[:4]
    dq, dk, dv = torch.ops.aten._flash_attention_backward(
        d_out, q, keys, values, out, lse, None, None, q.shape[1], k.shape[1], 0.0, causal, rng,
        unused, window_size_left=left, window_size_right=right)
    summed = [x.unflatten(2, (k.shape[2], group)).float().sum(3).to(q.dtype) for x in (dk, dv)]
    return dq, *summed


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


def attended(q, k, v, seen):
    """A forward pass of one's own, for any mask: out and lse."""
    keys, values = (x.float().repeat_interleave(q.shape[2] // k.shape[2], 2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), keys) * q.shape[3]**-0.5
    scores = scores.masked_fill(~seen, -math.inf)
    out = torch.einsum("bhqk,bkhd->bqhd", torch.softmax(scores, -1), values).to(q.dtype)
    return out, torch.logsumexp(scores, -1)


@check
def several_ranges():
    """Masks of which a query sees several ranges of keys, with a forward pass of one's own."""
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


# Mask functions of FlexAttention over 768 queries and keys, and what Stagger calls them. `tiles`: a
# file of their tiles says all, as partial tiles are lower triangles.
DOCUMENTS = (0,) * 256 + (1,) * 384 + (2,) * 128
UNEVEN = (0,) * 100 + (1,) * 410 + (2,) * 258
BLOCK_MASKS = [
    ("full", lambda q, k, d, u: q >= 0, True),
    ("causal", lambda q, k, d, u: q >= k, True),
    ("sliding:left=200,right=0", lambda q, k, d, u: (q >= k) & (q - k <= 200), False),
    ("sliding:left=100,right=100", lambda q, k, d, u: (q - k).abs() <= 100, False),
    ("prefix:length=300", lambda q, k, d, u: (k < 300) | (q >= k), False),
    ("prefix:length=256", lambda q, k, d, u: (k < 256) | (q >= k), True),
    ("document:lengths=256+384+128", lambda q, k, d, u: d[q] == d[k], True),
    ("document:lengths=256+384+128,causal=true",
     lambda q, k, d, u: (d[q] == d[k]) & (q >= k), True),
    ("document:lengths=100+410+258", lambda q, k, d, u: u[q] == u[k], False),
    ("sliding:left=150,right=0 & document:lengths=100+410+258",
     lambda q, k, d, u: (q >= k) & (q - k <= 150) & (u[q] == u[k]), False),
    ("sliding:left=200,right=0 | global:first=4 & causal",
     lambda q, k, d, u: (q >= k) & ((q - k <= 200) | (k < 4)), False),
    ("sliding:left=30,right=30 | global:tokens=0+130+300,symmetric=true",
     lambda q, k, d, u: ((q - k).abs() <= 30) | is_global(q) | is_global(k), False),
]


def is_global(token):
    return (token == 0) | (token == 130) | (token == 300)


def save_block_mask(mask, path):
    """As core/formats/README.md says it."""
    names = [a + s for s in ("_num_blocks", "_indices") for a in ("kv", "full_kv", "q", "full_q")]
    numpy.savez(path, seq_lengths=mask.seq_lengths, BLOCK_SIZE=mask.BLOCK_SIZE,
                **{name: getattr(mask, name).cpu().numpy() for name in names
                   if getattr(mask, name, None) is not None})


def tiles_of(folder, **mask):
    """Rows of tiles, a letter each, of 128 x 128 tokens."""
    path = pathlib.Path(folder) / "tiles.mask.json"
    stagger.command("export", **mask, tile_q=128, tile_kv=128, output=path)
    return json.loads(path.read_text(encoding="utf-8"))["rows"]


@check
def block_masks():
    """FlexAttention's own `BlockMask`s: their files are read as the masks that they are, and the
    gradients are FlexAttention's."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    d, u = (torch.tensor(each, device="cuda") for each in (DOCUMENTS, UNEVEN))
    q, k, v, d_out = tensors(1, 768, 4, 64, heads_kv=2, seed=5)
    heads = [x.transpose(1, 2).detach().requires_grad_() for x in (q, k, v)]
    index = torch.arange(768, device="cuda")
    for text, function, tiles in BLOCK_MASKS:
        mask = create_block_mask(lambda b, h, q, k: function(q, k, d, u), None, None, 768, 768)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mask.npz")
            save_block_mask(mask, path)
            same_tiles = tiles_of(folder, mask=text, seq=768) == tiles_of(folder, mask_file=path)
            # In what tiles_of() has written last a partial tile is a lower triangle by definition.
            described = "@" + os.path.join(folder, "tiles.mask.json")
            seen = function(index[:, None], index[None, :], d, u)
            out, lse = attended(q, k, v, seen)
            runs = [stagger.attention_backward(d_out, q, k, v, out, lse, mask=each)
                    for each in [text] + [described] * tiles]
        flex = flex_attention(*heads, block_mask=mask, enable_gqa=True)
        theirs = [x.transpose(1, 2) for x in
                  torch.autograd.grad(flex, heads, d_out.transpose(1, 2))]
        wanted = exact(q, k, v, d_out, None, seen)
        ours, flexes = (max(errors_of(each, wanted)) for each in (runs[0], theirs))
        apart = max(errors_of(runs[0], theirs))
        report("block_masks",
               same_tiles and max(ours, flexes, apart) < 7 * 2.0**-8 and
               all(same(bits_of(runs[0]), bits_of(run)) for run in runs),
               mask=text, tiles=same_tiles, error=f"{ours:.1e}", flex=f"{flexes:.1e}",
               apart=f"{apart:.1e}", by_file=tiles)


@check
def layouts():
    """One problem in every layout, packed and not, has the same bits; gradients have strides."""
    for heads_kv in (4, 2):
        q, k, v, d_out = tensors(2, 500, 4, 128, heads_kv=heads_kv)
        own = gradients(q, k, v, d_out)
        for layout, axes in (("bhsd", (0, 2, 1, 3)), ("sbhd", (1, 0, 2, 3))):
            views = [x.permute(axes) for x in (q, k, v, d_out)]
            for moved in (views, [x.contiguous() for x in views]):
                got = gradients(*moved, layout=layout)
                equal = all(torch.equal(a, b.permute(axes)) for a, b in zip(got, own))
                strided = all(a.stride() == b.stride() for a, b in zip(got, moved))
                report("layouts", equal and strided, layout=layout, heads_kv=heads_kv)
        packed = torch.cat([q, k, v], 2).split([4, heads_kv, heads_kv], 2)
        report("layouts", same(gradients(*packed, d_out), own), layout="packed qkv",
               heads_kv=heads_kv)
        wide = d_out[:, :1, :1].expand_as(d_out)
        report("layouts", same(gradients(q, k, v, wide), gradients(q, k, v, wide.contiguous())),
               layout="expanded d_out", heads_kv=heads_kv)
        turned = [x.transpose(2, 3).contiguous().transpose(2, 3) for x in (q, k, v)]  # dim apart
        got = gradients(*turned, d_out)
        strided = all(a.stride() == b.stride() for a, b in zip(got, turned))
        report("layouts", strided and same([x.contiguous() for x in got], own), layout="dim apart",
               heads_kv=heads_kv)
        odd = [torch.empty(x.numel() + 1, dtype=x.dtype, device="cuda")[1:].view(x.shape).copy_(x)
               for x in (q, k, v)]  # two bytes off what the copy engine takes
        report("layouts", same(gradients(*odd, d_out), own), layout="odd address",
               heads_kv=heads_kv)


@check
def steady():
    """The same bits idle, beside products, on two streams, in a graph, with other workspaces."""
    cases = [(2, 2048, 8, 8, 128, "causal"), (1, 1000, 16, 4, 64, "full"),
             (4, 4096, 16, 16, 128, "causal"), (2, 3000, 8, 2, 128, "sliding:left=511,right=0"),
             (2, 2048, 8, 1, 64, "causal"), (1, 1024, 8, 8, 128, "document:lengths=300+724")]
    for batch, seq, heads, heads_kv, dim, mask in cases:
        q, k, v, d_out = tensors(batch, seq, heads, dim, heads_kv=heads_kv)
        out, lse = stagger.attention(q, k, v, mask=mask, return_lse=True)

        def run():
            return stagger.attention_backward(d_out, q, k, v, out, lse, mask=mask)

        first, equal = bits_of(run()), True
        for _ in range(20):
            equal &= same(bits_of(run()), first)
        matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        for _ in range(20):
            with torch.cuda.stream(side):
                matrix = matrix @ matrix * 1e-3
            equal &= same(bits_of(run()), first)
        torch.cuda.synchronize()
        streams = [torch.cuda.Stream() for _ in range(2)]
        for _ in range(10):
            results = []
            for stream in streams:
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    results.append(bits_of(run()))
            torch.cuda.synchronize()
            equal &= all(same(result, first) for result in results)
        equal &= same_replays(run, first, 20) == 20
        torch.cuda.synchronize()
        report("steady", equal, case=f"{batch} x {heads}/{heads_kv} x {seq} x {dim} {mask}",
               runs=80)
    stagger.check(sync=True)


@check
def threads():
    """A thread that has called nothing of CUDA yet runs a call of a plan that another thread made:
    the driver makes tensor maps, and has no context there. Autograd's thread is such a one."""
    import threading
    q, k, v, d_out = tensors(1, 384, 2, 64)
    out, lse = stagger.attention(q, k, v, return_lse=True)
    stagger.attention_backward(d_out, q, k, v, out, lse)  # the plan and the memory are there
    wanted = stagger.attention_backward(d_out, q, k, v, out, lse)
    torch.cuda.synchronize()
    for turn in range(3):
        found = []

        def run():
            try:
                found.extend(stagger.attention_backward(d_out, q, k, v, out, lse))
            except stagger.StaggerError as error:
                found.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        torch.cuda.synchronize()
        told = [str(each) for each in found if isinstance(each, Exception)]
        report("threads", not told and same(found, wanted), thread=turn, raised=told)
    own = gradients(q, k, v, d_out, forward="flash")
    torch.cuda.synchronize()
    report("threads", all(bool(torch.isfinite(each).all()) for each in own), thread="autograd's")


def made_call(plan, case, workspace, **more):
    """A call of the C interface on memory of our own: the struct, gradients between canaries, the
    canaries, and the plan's image."""
    q, k, v, d_out, out, lse = case
    image = torch.empty(plan.device_bytes, dtype=torch.uint8, device="cuda")
    _lib.check(_lib.library().stagger_plan_upload(plan.handle, image.data_ptr(), image.numel(), 0))
    canaries = [torch.full((x.numel() + 256,), 7.0, dtype=x.dtype, device="cuda")
                for x in (q, k, v)]
    grads = [c[128:-128].view(x.shape) for c, x in zip(canaries, (q, k, v))]

    def tensor(x):
        return _lib.Tensor(x.data_ptr(), (ctypes.c_int64 * 3)(*x.stride()[:3]))

    rows = _lib.Tensor(lse.data_ptr(), (ctypes.c_int64 * 3)(
        lse.stride(0), lse.stride(2), lse.stride(1)))
    call = _lib.Call(q=tensor(q), k=tensor(k), v=tensor(v), out=tensor(out), d_out=tensor(d_out),
                     dq=tensor(grads[0]), dk=tensor(grads[1]), dv=tensor(grads[2]), lse=rows,
                     workspace=workspace.data_ptr() + 256, workspace_bytes=plan.workspace_bytes,
                     device_plan=image.data_ptr(), **more)
    torch.cuda.synchronize()
    return call, grads, canaries, image


def untouched(canaries):
    return all(bool((c[:128] == 7).all() and (c[-128:] == 7).all()) for c in canaries)


def raw_call(plan, case, workspace, **more):
    """Makes such a call; gradients, and whether the canaries are whole."""
    call, grads, canaries, _image = made_call(plan, case, workspace, **more)
    _lib.check(_lib.library().stagger_backward(plan.handle, ctypes.byref(call)))
    torch.cuda.synchronize()
    return grads, untouched(canaries)


@check
def memory():
    """Nothing beside the gradients and the workspace is written, nothing in it is read, and the
    elastic launch has the bits of the cooperative one."""
    q, k, v, d_out = tensors(2, 777, 8, 128, heads_kv=2)
    out, lse = stagger.attention(q, k, v, return_lse=True)
    first = {}
    for elastic, span in itertools.product((False, True), (1, 2, 4)):
        plan = stagger.Plan("causal", "spt", seq_q=777, batch=2, heads=8, heads_kv=2, span=span,
                            head_dim=128, dtype="bf16", elastic=elastic)
        for fill in (0, 0xFF, 0x7F):
            space = torch.full((plan.workspace_bytes + 512,), fill, dtype=torch.uint8,
                               device="cuda")
            grads, whole = raw_call(plan, (q, k, v, d_out, out, lse), space)
            untouched = bool((space[:256] == fill).all() and (space[-256:] == fill).all())
            bits = bits_of(grads)
            steady = same(bits, first.setdefault(span, bits))
            report("memory", whole and untouched and steady, elastic=elastic, span=span,
                   filled=fill)


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


@check
def stopped():
    """A table that hangs is stopped by its deadline: NaN, a note, and the next call is right."""
    q, k, v, d_out = tensors(1, 512, 1, 64)
    out, lse = stagger.attention(q, k, v, mask="full", return_lse=True)
    sound = stagger.Plan("full", "spt", seq_q=512, heads=1, head_dim=64, dtype="bf16", tile_q=64)
    document = sound.json()
    document["lanes"][-1][-1][3] = 99  # a turn that never comes
    hanging = stagger.Plan("full", seq_q=512, heads=1, head_dim=64, dtype="bf16", verify=False,
                           table=json.dumps(document))
    space = torch.zeros(hanging.workspace_bytes + 512, dtype=torch.uint8, device="cuda")
    device = runtime.device(0)
    case = (q, k, v, d_out, out, lse)
    grads, whole = raw_call(hanging, case, space, timeout_ms=50, status=device.status,
                            call_id=device.note("the one that hangs"))
    nan = all(bool(torch.isnan(each).all()) for each in grads)
    try:
        stagger.check(sync=True)
        told = ""
    except stagger.Timeout as error:
        told = str(error)
    again, _ = raw_call(sound, case, space)
    fine = max(errors_of(again, exact(q, k, v, d_out, "full"))) < 7 * 2.0**-8
    stagger.check(sync=True)
    report("stopped", nan and whole and fine and "the one that hangs" in told, told=told[:60])


@check
def invariant():
    """A row of a batch alone, and any number of SMs, have the same bits."""
    q, k, v, d_out = tensors(4, 2048, 16, 128)
    for schedule in ("auto", "spt", "symmetric-shift"):
        arguments = {"schedule": schedule, "invariant": True}
        whole = gradients(q, k, v, d_out, **arguments)
        alone = gradients(q[2:3], k[2:3], v[2:3], d_out[2:3], **arguments)
        fewer = gradients(q, k, v, d_out, **arguments, sm_margin=16)
        report("invariant", same(alone, [x[2:3] for x in whole]) and same(fewer, whole),
               schedule=schedule, alone=same(alone, [x[2:3] for x in whole]),
               fewer_sms=same(fewer, whole))
    out, lse = stagger.attention(q, k, v, return_lse=True)
    one = [x[1:2, :, 3:4] for x in (d_out, q, k, v, out)]
    whole = stagger.attention_backward(d_out, q, k, v, out, lse, invariant=True)
    alone = stagger.attention_backward(*one, lse[1:2, 3:4], invariant=True)
    report("invariant", same(alone, [x[1:2, :, 3:4] for x in whole]), what="one head of all")
    usual = [stagger.attention_backward(d_out, q, k, v, out, lse),
             stagger.attention_backward(*(x[1:2] for x in (d_out, q, k, v, out)), lse[1:2])]
    report("invariant", True, without_it="same" if same(
        usual[1], [x[1:2] for x in usual[0]]) else "other bits")
    try:
        stagger.attention(*(x[:1, :, :1] for x in (q, k, v)), invariant=True)
        refused = False
    except stagger.Unsupported:
        refused = True
    report("invariant", refused, refused="a forward pass that splits keys")


@check
def operators():
    """torch.library.opcheck, torch.compile, and no wait for the device."""
    q, k, v, d_out = tensors(1, 256, 2, 64)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    scale = 0.125
    torch.library.opcheck(torch.ops.stagger.forward.default,
                          (*leaves, "causal", "spt", scale, "bshd", "flash", 0, False))
    out, lse = torch.ops.stagger.forward(q, k, v, "causal", "spt", scale, "bshd", "flash", 0, False)
    plain = [x.detach() for x in (d_out, q, k, v, out, lse)]
    torch.library.opcheck(torch.ops.stagger.backward.default,
                          (*plain, "causal", "spt", scale, "bshd", 0, False))
    report("operators", True, opcheck="both")

    def loss(a, b, c):
        return (stagger.attention(a * 1.0, b, c, mask="causal") * d_out).sum()

    eager = torch.autograd.grad(loss(*leaves), leaves)
    compiled = torch.autograd.grad(torch.compile(loss, fullgraph=True)(*leaves), leaves)
    report("operators", same(eager, compiled), compiled="fullgraph")
    out, lse = stagger.attention(*leaves, return_lse=True)
    for _ in range(2):
        torch.autograd.grad(out, leaves, d_out, retain_graph=True)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(10):
            torch.autograd.grad(out, leaves, d_out, retain_graph=True)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(100):
        torch.ops.stagger.backward(*plain, "causal", "spt", scale, "bshd", 0, False)
    host = (time.perf_counter() - begin) / 100
    torch.cuda.synchronize()
    report("operators", True, sync="none", host_us=round(1e6 * host, 1))


@check
def refusals():
    """What is not done has its reason."""
    q, k, v, d_out = tensors(1, 128, 2, 64)
    cases = [
        (stagger.Unsupported, "fp32", lambda: stagger.attention(q.float(), k.float(), v.float())),
        (stagger.Unsupported, "cpu", lambda: stagger.attention(q.cpu(), k.cpu(), v.cpu())),
        (stagger.Unsupported, "head_dim", lambda: stagger.attention(
            *(x[..., :32] for x in (q, k, v)))),
        (ValueError, "heads", lambda: stagger.attention(q[:, :, :1], k, v)),
        (ValueError, "mixed", lambda: stagger.attention(q, k.half(), v)),
        (stagger.StaggerError, "mask", lambda: stagger.attention_backward(
            d_out, q, k, v, q, torch.zeros(1, 2, 128, device="cuda"), mask="nonsense")),
        (stagger.StaggerError, "schedule", lambda: stagger.attention_backward(
            d_out, q, k, v, q, torch.zeros(1, 2, 128, device="cuda"), schedule="nonsense")),
        (ValueError, "lse", lambda: stagger.attention_backward(
            d_out, q, k, v, q, torch.zeros(1, 128, 2, device="cuda"))),
    ]
    for error, what, call in cases:
        try:
            call()
            passed, said = False, "nothing"
        except error as raised:
            passed, said = True, str(raised)[:60]
        report("refusals", passed, what=what, said=said)
    fresh = tensors(1, 640, 2, 64)
    out, lse = stagger.attention(*fresh[:3], return_lse=True)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            stagger.attention_backward(fresh[3], *fresh[:3], out, lse)
        passed = False
    except stagger.CaptureError:
        passed = True
    torch.cuda.synchronize()
    report("refusals", passed, what="a plan that is not there while a stream is captured")


@check
def sdpa():
    """torch's SDPA with its flash backward pass replaced, and without again."""
    from stagger.integrations import sdpa as hook
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q, k, v, d_out = (x.transpose(1, 2).requires_grad_() for x in tensors(2, 700, 4, 64))

    def attend(dropout=0.0):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=True, dropout_p=dropout)

    def run(dropout=0.0, attend=attend):
        return torch.autograd.grad(attend(dropout), (q, k, v), d_out.detach())

    out, lse = stagger.attention(q, k, v, layout="bhsd", forward="flash", return_lse=True)
    wanted = stagger.attention_backward(*(x.detach() for x in (d_out, q, k, v, out, lse)),
                                        layout="bhsd")
    before = run()
    names = ["install"] + [name for name in (hook.NAME, hook.NAME_OR_TORCH) if hook.register()]
    for name in names:
        if name == "install":
            handle = hook.install()
        else:
            torch.nn.attention.activate_flash_attention_impl(name)
        ours = run()
        compiled = run(attend=torch.compile(attend)) if name == "install" else ours
        try:
            dropped = torch.isfinite(run(0.5)[0]).all().item()
        except stagger.Unsupported as error:
            dropped = str(error)
        if name == "install":
            handle.remove()
        else:
            torch.nn.attention.restore_flash_attention_impl()
        right = dropped is True if name == hook.NAME_OR_TORCH else "dropout_p" in str(dropped)
        report("sdpa", same(ours, wanted) and same(compiled, wanted) and right, by=name,
               dropout=dropped, other_than_torch=not same(ours, before))
    after = errors_of(run(), [x.double() for x in before])
    report("sdpa", max(after) < 1e-2 and torch.backends.cuda.cudnn_sdp_enabled(),
           removed=f"{max(after):.1e}", names=names)


@check
def transformers():
    """A Llama and a Mistral with windows take the attention by name: gradients beside eager fp32,
    and the same bits twice."""
    try:
        import transformers as library
    except ImportError:
        report("transformers", True, skipped="not installed")
        return
    from stagger.integrations import transformers as hook
    hook.register()
    sizes = dict(vocab_size=512, hidden_size=256, intermediate_size=512, num_hidden_layers=2,
                 num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024)
    for kind, more in (("Llama", {}), ("Mistral", {"sliding_window": 100})):
        config = getattr(library, f"{kind}Config")(**sizes, **more)
        tokens = torch.randint(0, 512, (2, 400), device="cuda",
                               generator=torch.Generator("cuda").manual_seed(3))

        def grads(name, dtype):
            torch.manual_seed(5)
            model = library.AutoModelForCausalLM.from_config(config, attn_implementation=name)
            model = model.cuda().to(dtype).train()
            model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
            return [parameter.grad for parameter in model.parameters()]

        ours, again = grads("stagger", torch.bfloat16), grads("stagger", torch.bfloat16)
        right = [x.double() for x in grads("eager", torch.float32)]
        eager = errors_of(grads("eager", torch.bfloat16), right)
        found = errors_of(ours, right)
        report("transformers", same(ours, again) and max(found) < 2 * max(eager), model=kind,
               version=library.__version__, error=f"{max(found):.1e}",
               eager_bf16=f"{max(eager):.1e}")
        padding = torch.ones_like(tokens)
        padding[0, :7] = 0
        model = library.AutoModelForCausalLM.from_config(
            config, attn_implementation="stagger").cuda().to(torch.bfloat16)
        try:
            model(input_ids=tokens, attention_mask=padding, use_cache=False)
            said = "nothing"
        except stagger.Unsupported as error:
            said = str(error)
        report("transformers", "mask tensor" in said, model=kind, padding=said[:50])


@check
def locked():
    """A lock file has the order that ran, takes its schedule, and refuses another order."""
    import tempfile
    case = tensors(1, 1024, 8, 64)
    path = pathlib.Path(tempfile.mkdtemp()) / "run.lock.json"
    stagger.lock(path)
    try:
        first = gradients(*case)
        entry = json.loads(path.read_text())["entries"][0]
        digest = f"{stagger.prepare(*case[:2]).order_digest:016x}"
        stagger.lock(path)
        report("locked", entry["order_digest"] == digest and same(gradients(*case), first),
               schedule=entry["schedule"], order=digest)
        path.write_text(path.read_text().replace(digest, "0" * 16))
        stagger.lock(path)
        try:
            gradients(*case)
            said = "nothing"
        except stagger.DigestMismatch as error:
            said = str(error)
        report("locked", "is not the recorded order" in said, said=said[-60:])
    finally:
        stagger.lock(None)


@check
def digests():
    """A digest of a tensor is one on the GPU and on the CPU."""
    for dtype in (torch.bfloat16, torch.float32, torch.int8):
        x = (100 * torch.randn(1001, 77, device="cuda")).to(dtype)
        pair = stagger.debug.digest(x), stagger.debug.digest(x.cpu())
        report("digests", pair[0] == pair[1], dtype=dtype, digest=pair[0])


@check
def profile():
    """One shape's phases, measured through the library."""
    import tempfile
    from stagger import machines
    path = machines.calibrate(pathlib.Path(tempfile.mkdtemp()) / "machine.json", shapes=[(64, 128)],
                              memory=False, say=lambda line: None)
    kernels = json.loads(path.read_text())["kernels"]
    plan = stagger.Plan("causal", "auto", seq_q=2048, heads=32, head_dim=64, dtype="bf16",
                        machine=f"@{path}")
    report("profile", len(kernels) == 1 and plan.predicted_ns > 0, kernel=kernels[0]["kernel"],
           compute_ns=kernels[0]["ns"]["compute"]["value"], auto=plan.schedule)


@within(240)
def compiled_lengths():
    """torch.compile with dynamic=True over three lengths: eager's bits, compiled twice at most."""
    import torch._dynamo
    torch._dynamo.reset()
    built = []

    def counted(module, inputs):
        built.append(module)
        return module.forward

    def attend(q, k, v):
        return stagger.attention(q * 1.0, k, v, mask="causal")

    compiled = torch.compile(attend, backend=counted, fullgraph=True, dynamic=True)
    for seq in (256, 384, 1000):
        case = tensors(2, seq, 4, 64, seed=seq)
        leaves = [x.requires_grad_() for x in case[:3]]
        eager = torch.autograd.grad(attend(*leaves), leaves, case[3])
        found = torch.autograd.grad(compiled(*leaves), leaves, case[3])
        report("compiled_lengths", same(eager, found), seq=seq, compiled=len(built))
    report("compiled_lengths", len(built) <= 2, compiled=len(built))
    torch._dynamo.reset()
    inductor = torch.compile(attend, fullgraph=True, dynamic=True)
    for seq in (256, 384, 1000):
        case = tensors(2, seq, 4, 64, seed=seq)
        leaves = [x.requires_grad_() for x in case[:3]]
        eager = torch.autograd.grad(attend(*leaves), leaves, case[3])
        found = torch.autograd.grad(inductor(*leaves), leaves, case[3])
        report("compiled_lengths", same(eager, found), seq=seq, by="inductor")


@within(240)
def reduced_overhead():
    """mode="reduce-overhead", whose graphs hold both passes: eager's bits in every replay."""
    import torch._dynamo
    torch._dynamo.reset()

    def attend(q, k, v):
        return stagger.attention(q * 1.0, k, v, mask="causal", forward="flash")

    compiled = torch.compile(attend, fullgraph=True, mode="reduce-overhead")
    equal = []
    for turn in range(8):
        case = tensors(2, 512, 4, 128, seed=turn)
        leaves = [x.requires_grad_() for x in case[:3]]
        eager = torch.autograd.grad(attend(*leaves), leaves, case[3])
        torch.compiler.cudagraph_mark_step_begin()
        found = torch.autograd.grad(compiled(*leaves), leaves, case[3])
        equal.append(same(eager, [x.clone() for x in found]))
    torch.cuda.synchronize()
    stagger.check()  # no call of Python looks at replays
    report("reduced_overhead", all(equal), turns=len(equal), same=sum(equal))


@within(60)
def batches_of_flash():
    """torch's deterministic flash alone and in a batch of eight, and an invariant order: bits."""
    q, k, v, d_out = tensors(8, 2048, 4, 64)
    out, lse = stagger.attention(q, k, v, forward="flash", return_lse=True)

    def row(each):
        return [x[2:3] for x in each]

    def flash(q, k, v, d_out):
        theirs, sums, rng, unused = torch.ops.aten._flash_attention_forward(
            q, k, v, None, None, q.shape[1], k.shape[1], 0.0, True, False)[:4]
        torch.use_deterministic_algorithms(True)
        try:
            found = torch.ops.aten._flash_attention_backward(
                d_out, q, k, v, theirs, sums, None, None, q.shape[1], k.shape[1], 0.0, True, rng,
                unused)
        finally:
            torch.use_deterministic_algorithms(False)
        return theirs, found

    for invariant in (True, False):
        arguments = {"invariant": invariant, "schedule": "auto"}
        whole = stagger.attention_backward(d_out, q, k, v, out, lse, **arguments)
        alone = stagger.attention_backward(*row((d_out, q, k, v, out)), lse[2:3], **arguments)
        equal = same(alone, row(whole))
        report("batches_of_flash", equal or not invariant, invariant=invariant,
               alone="same" if equal else "other bits")
    (out_all, whole), (out_one, alone) = flash(q, k, v, d_out), flash(*row((q, k, v, d_out)))
    again = flash(q, k, v, d_out)[1]
    report("batches_of_flash", same(whole, again), flash="the same bits twice")
    # What is known of it, not what is promised: dQ's copies are as many as fill the SMs.
    report("batches_of_flash", True, flash_alone=[
        "same" if torch.equal(a, b) else "other bits" for a, b in zip(alone, row(whole))],
        forward="same" if torch.equal(out_one, row((out_all,))[0]) else "other bits")


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


@within(240)
def replayed():
    """Fifty replays of a graph of both passes' backward in six cases: one run's bits."""
    for batch, seq, heads, heads_kv, dim, mask, schedule in (
            (2, 2048, 8, 8, 128, "causal", "auto"), (1, 1000, 16, 4, 64, "full", "auto"),
            (4, 4096, 16, 16, 128, "causal", "symmetric-shift"),
            (2, 3000, 8, 2, 128, "sliding:left=511,right=0", "auto"),
            (2, 2048, 8, 8, 64, "causal", "spt"),
            (1, 1024, 8, 8, 128, "document:lengths=300+724,causal=true", "auto")):
        q, k, v, d_out = tensors(batch, seq, heads, dim, heads_kv=heads_kv)
        out, lse = stagger.attention(q, k, v, mask=mask, schedule=schedule, return_lse=True)

        def run():
            return stagger.attention_backward(d_out, q, k, v, out, lse, mask=mask,
                                              schedule=schedule)

        equal = same_replays(run, bits_of(run()), 50)
        torch.cuda.synchronize()
        stagger.check()
        report("replayed", equal == 50, same=equal,
               case=f"{batch} x {heads}/{heads_kv} x {seq} x {dim} {mask} {schedule}")


def host_us(call):
    """Microseconds of the host for a call: the least of five rounds of 200."""
    least = math.inf
    for _ in range(5):
        for _ in range(20):
            call()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(200):
            call()
        least = min(least, (time.perf_counter() - begin) / 200)
    torch.cuda.synchronize()
    return 1e6 * least


@within(60)
def host_time():
    """A backward call takes the host less than 60 us, or twelve times what torch's own x.add_(1)
    does where that is more: hosts differ by two."""
    q, k, v, d_out = tensors(1, 256, 2, 64)
    out, lse = stagger.attention(q, k, v, return_lse=True)
    plain = d_out, q, k, v, out, lse
    one = torch.zeros(4, device="cuda")
    pace = host_us(lambda: one.add_(1))
    for name, call in (
            ("operator", lambda: torch.ops.stagger.backward(
                *plain, "causal", "spt", 0.125, "bshd", 0, False, 0)),
            ("attention_backward", lambda: stagger.attention_backward(
                *plain, schedule="spt", sm_margin=0))):
        took = host_us(call)
        report("host_time", took < max(60, 12 * pace), call=name, host_us=round(took, 1),
               add_us=round(pace, 1))


def holding(ctas, ms):
    """Starts a call of ours on a stream of its own, whose CTAs wait for turns that never come: it
    holds as many SMs until its deadline. Returns what must live as long."""
    heads, arguments = -(-ctas // 32), {"seq_q": 4096, "head_dim": 128, "dtype": "bf16"}
    document = stagger.Plan("full", "spt", heads=heads, tile_q=64, sms=ctas, **arguments).json()
    for lane in document["lanes"]:
        lane[0][3] = 9999
    plan = stagger.Plan("full", heads=heads, verify=False, table=json.dumps(document), sms=ctas,
                        **arguments)
    q, k, v, d_out = tensors(1, 4096, heads, 128)
    stream = torch.cuda.Stream()
    space = torch.zeros(plan.workspace_bytes + 512, dtype=torch.uint8, device="cuda")
    case = q, k, v, d_out, d_out, torch.zeros(1, heads, 4096, device="cuda")
    made = made_call(plan, case, space, timeout_ms=ms, stream=stream.cuda_stream)
    torch.cuda.synchronize()
    _lib.check(_lib.library().stagger_backward(plan.handle, ctypes.byref(made[0])))
    time.sleep(0.1)
    return plan, made, space, stream, case


@within(120)
def held():
    """A kernel holds SMs for two seconds: no call hangs; what ends is right, or NaN with an error.

    A grid that starts as there is room goes by it; one that must all be there waits for it."""
    q, k, v, d_out = tensors(2, 2048, 8, 128)
    out, lse = stagger.attention(q, k, v, return_lse=True)
    case, device = (q, k, v, d_out, out, lse), runtime.device(0)
    for schedule, elastic in (("spt", True), ("symmetric-shift", False)):
        plan = stagger.Plan("causal", schedule, seq_q=2048, batch=2, heads=8, head_dim=128,
                            dtype="bf16", elastic=elastic, sms=device.sms)
        space = torch.zeros(plan.workspace_bytes + 512, dtype=torch.uint8, device="cuda")
        wanted = bits_of(raw_call(plan, case, space)[0])
        for ctas in (32, device.sms):
            side = torch.cuda.Stream()
            call, grads, canaries, image = made_call(
                plan, case, space, timeout_ms=200, status=device.status, stream=side.cuda_stream,
                call_id=device.note("the one beside"))
            kept = holding(ctas, 2000)
            begin = time.perf_counter()
            _lib.check(_lib.library().stagger_backward(plan.handle, ctypes.byref(call)))
            side.synchronize()
            took = time.perf_counter() - begin
            torch.cuda.synchronize()
            nan = all(bool(torch.isnan(each).all()) for each in grads)
            try:
                stagger.check(sync=True)
                told = ""
            except stagger.Timeout as error:
                told = str(error)
            right = same(bits_of(grads), wanted)
            again = bits_of(raw_call(plan, case, space)[0])
            by_itself = took < 1 or not (elastic and ctas == 32)
            ended = right if not told else nan and "the one beside" in told
            report("held", ended and by_itself and untouched(canaries) and took < 20 and
                   same(again, wanted), schedule=schedule, held_sms=ctas, seconds=round(took, 2),
                   ended="by its deadline" if told else "right")
            del kept, image


@within(60)
def deadline():
    """A call of attention whose turn never comes: NaN everywhere, the next call raises Timeout, the
    one after it is right. The wait is STAGGER_TIMEOUT_MS."""
    q, k, v, d_out = tensors(1, 512, 1, 64)
    out, lse = stagger.attention(q, k, v, mask="full", return_lse=True)
    document = stagger.Plan("full", "spt", seq_q=512, heads=1, head_dim=64, dtype="bf16",
                            tile_q=64).json()
    document["lanes"][-1][-1][3] = 99  # a turn that never comes
    hanging = stagger.Plan("full", seq_q=512, heads=1, head_dim=64, dtype="bf16", verify=False,
                           table=json.dumps(document))
    os.environ["STAGGER_TIMEOUT_MS"] = "300"
    stock = runtime.make_plan
    try:
        runtime.make_plan = lambda key, machine=None: hanging
        begin = time.perf_counter()
        grads = stagger.attention_backward(d_out, q, k, v, out, lse, mask="full", schedule="shift")
        torch.cuda.synchronize()
        took = time.perf_counter() - begin
    finally:
        runtime.make_plan = stock
        del os.environ["STAGGER_TIMEOUT_MS"]
    nan = all(bool(torch.isnan(each).all()) for each in grads)

    def call():
        return stagger.attention_backward(d_out, q, k, v, out, lse, mask="full", schedule="spt")

    try:
        call()
        told = "nothing"
    except stagger.Timeout as error:
        told = str(error)
    fine = max(errors_of(call(), exact(q, k, v, d_out, "full"))) < 7 * 2.0**-8
    report("deadline", nan and 0.2 < took < 20 and "was stopped" in told and fine,
           seconds=round(took, 2), told=told[:60])


@within(60)
def elsewhere():
    """fallback="sdpa" takes what is refused, held to its deterministic way where that is asked for;
    forward="fa3" runs or says why not."""
    import warnings
    q, k, v, d_out = tensors(2, 256, 4, 96, heads_kv=2)  # no head_dim of the kernel's
    for strict in (False, True):
        torch.use_deterministic_algorithms(strict)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                runs = [gradients(q, k, v, d_out, fallback="sdpa") for _ in range(3)]
        finally:
            torch.use_deterministic_algorithms(False)
        worst = max(errors_of(runs[0], exact(q, k, v, d_out, "causal")))
        equal = all(same(runs[0], each) for each in runs[1:])
        said = any("head_dim is 96" in str(each.message) for each in caught)
        report("elsewhere", worst < 7 * 2.0**-8 and said and (equal or not strict), strict=strict,
               error=f"{worst:.1e}", same_bits=equal)
    q, k, v, d_out = tensors(2, 1024, 4, 128, heads_kv=2)
    try:
        found, said = gradients(q, k, v, d_out, forward="fa3"), "runs"
        right = max(errors_of(found, exact(q, k, v, d_out, "causal"))) < 7 * 2.0**-8
    except stagger.Unsupported as error:
        said = str(error)
        right = said.startswith("forward fa3: ")
    report("elsewhere", right, fa3=said[:80])
    report("elsewhere", not forwards.CLOSED, closed=forwards.CLOSED)


@within(60)
def forked():
    """A child that is forked from a process with a GPU is told so, and touches no CUDA."""
    q, k, v, d_out = tensors(1, 256, 2, 64)
    wanted = gradients(q, k, v, d_out)
    torch.cuda.synchronize()
    for what in (lambda: stagger.attention(q, k, v), lambda: stagger.check(),
                 lambda: stagger.prepare(q, k)):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                what()
                said = "nothing"
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writer, said.encode()[:1000])
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        report("forked", said.startswith("DeviceError: ") and "spawn" in said, said=said[:60])
    report("forked", same(gradients(q, k, v, d_out), wanted), parent="goes on")


@within(60)
def prefetched():
    """A plan made in a thread is the one that the call takes, for documents of every step."""
    for turn in range(3):
        q, k, v, d_out = tensors(1, 1024, 4, 64, seed=turn)
        mask = stagger.mask("document", lengths=[300 + 7 * turn, 724 - 7 * turn], causal=True)
        plan = stagger.prefetch(q, k, mask=mask).result(30)
        before = stagger.plans.stats()
        got = gradients(q, k, v, d_out, mask=mask)
        after = stagger.plans.stats()
        worst = max(errors_of(got, exact(q, k, v, d_out, mask.text)))
        report("prefetched", worst < 7 * 2.0**-8 and after["misses"] == before["misses"] and
               plan is stagger.prepare(q, k, mask=mask), error=f"{worst:.1e}")


def elapsed_ms(functions, rounds=7, each=10):
    """Median ms of each function: in every round each runs a few times, in turn."""
    times = [[] for _ in functions]
    for function in functions:
        function()
    for turn in range(rounds):
        for offset in range(len(functions)):
            place = (turn + offset) % len(functions)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            functions[place]()
            begin.record()
            for _ in range(each):
                functions[place]()
            end.record()
            end.synchronize()
            times[place].append(begin.elapsed_time(end) / each)
    return [sorted(each)[len(each) // 2] for each in times]


@check
def speed():
    """Backward passes in one process on the same tensors: ms, and TFLOP/s of ours."""
    for dim, seq, heads_kv, mask in ((128, 4096, 16, "causal"), (128, 4096, 4, "causal"),
                                     (64, 4096, 32, "causal"), (128, 8192, 16, "full")):
        heads = 2048 // dim
        batch = 16384 // seq
        heads_kv = heads_kv if heads_kv < heads else heads
        q, k, v, d_out = tensors(batch, seq, heads, dim, heads_kv=heads_kv)
        out, lse = stagger.attention(q, k, v, mask=mask, return_lse=True, forward="flash")
        group, causal = heads // heads_kv, mask == "causal"
        keys, values = (x.repeat_interleave(group, 2) for x in (k, v))
        theirs, sums, rng, unused = torch.ops.aten._flash_attention_forward(
            q, keys, values, None, None, seq, seq, 0.0, causal, False)[:4]

        def ours():
            stagger.attention_backward(d_out, q, k, v, out, lse, mask=mask)

        def flash(strict):
            def run():
                torch.use_deterministic_algorithms(strict)
                torch.utils.deterministic.fill_uninitialized_memory = False
                torch.ops.aten._flash_attention_backward(
                    d_out, q, keys, values, theirs, sums, None, None, seq, seq, 0.0, causal, rng,
                    unused)
                torch.use_deterministic_algorithms(False)
            return run

        ms = elapsed_ms([ours, flash(True), flash(False)])
        flops = 10 * batch * heads * seq * seq * dim / (2 if causal else 1)
        report("speed", True, case=f"{batch} x {heads}/{heads_kv} x {seq} x {dim} {mask}",
               ours_ms=round(ms[0], 3), tflops=round(flops / ms[0] / 1e9), flash_det_ms=round(
                   ms[1], 3), flash_ms=round(ms[2], 3))


def main():
    if "--list" in sys.argv:
        for name, function in CHECKS.items():
            print(f"{name:<18}{LIMITS[name]:>4} s  {function.__doc__.splitlines()[0]}")
        return 0
    names = sys.argv[1:] or list(CHECKS)
    for name in names:
        begin = time.perf_counter()
        faulthandler.dump_traceback_later(LIMITS[name], exit=True)
        try:
            CHECKS[name]()
        except Exception as error:  # of one check: the others go on
            traceback.print_exc()
            report(name, False, raised=f"{type(error).__name__}: {error}"[:300])
            if isinstance(error, torch.AcceleratorError):
                break  # the context is lost
        faulthandler.cancel_dump_traceback_later()
        print(f"       {name} took {time.perf_counter() - begin:.1f} s", flush=True)
    passed = all(result["passed"] for result in RESULTS)
    print(json.dumps({"schema": "stagger.torch-checks/1", "torch": torch.__version__,
                      "device": torch.cuda.get_device_name(), "library": stagger.info()["commit"],
                      "passed": passed, "results": RESULTS}, default=str))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
