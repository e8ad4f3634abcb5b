"""What the checks on a GPU share: how they are known, tensors, gradients in double precision and of
torch's flash, bits, and calls of the C interface."""

import ctypes
import itertools
import math

import torch

import stagger
from stagger import _lib
from stagger.torch import forward as forwards

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


def attended(q, k, v, seen):
    """A forward pass of one's own, for any mask: out and lse."""
    keys, values = (x.float().repeat_interleave(q.shape[2] // k.shape[2], 2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), keys) * q.shape[3]**-0.5
    scores = scores.masked_fill(~seen, -math.inf)
    out = torch.einsum("bhqk,bkhd->bqhd", torch.softmax(scores, -1), values).to(q.dtype)
    return out, torch.logsumexp(scores, -1)


def bits_of(gradient):
    return [each.contiguous().view(torch.int16).clone() for each in gradient]


def same(left, right):
    return all(torch.equal(a, b) for a, b in zip(left, right))


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
