"""`attention` and what belongs to it: on a GPU by operators, on the CPU by threads."""

import concurrent.futures
import functools
import math
import os

import torch

from .. import errors, host, plain, settings
from ..plans import plans
from . import fallback as fallbacks
from . import forward as forwards
from . import logsumexp, on_cpu, runtime, shapes


def ops_available():
    """Whether torch can have stagger::forward and stagger::backward: from 2.4 on. Without them
    attention is for the CPU alone."""
    return hasattr(torch.library, "register_autograd")


#: Found once, since torch.compile traces what asks for it.
_OPERATORS = ops_available()
if _OPERATORS:
    from .operators import (backward_operator, backward_past_autograd, forward_operator,
                            image_of, plan_of)


def expect_operators():
    """Raises ImportError if torch is too old for operators."""
    if not _OPERATORS:
        raise ImportError("stagger.attention on a GPU needs torch 2.4 or later; this is "
                          f"{torch.__version__}")


def _is_on_gpu(q, **others):
    """Whether a call is for the operators. Raises TypeError for what is no tensor, and ImportError if
    torch is too old for operators."""
    shapes.expect_tensors(q=q, **others)
    if q.is_cuda:
        expect_operators()
        runtime.expect_own_devices()
    return q.is_cuda


def _scale(q, scale):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if not 0 < scale < math.inf:  # a scale of torch.compile's has no math.isfinite
        raise ValueError(f"scale is {scale}; it is positive and finite")
    return scale


def _margin(sm_margin):
    """As operators have it: -1 for what is found. Raises UsageError for what is no number of SMs."""
    if sm_margin is None:
        return -1
    found = plain.index(sm_margin)
    if found is None or found < 0:
        raise errors.UsageError(f"sm_margin is {sm_margin!r}; it is a number of SMs, or None")
    return found


def attention(q, k, v, *, mask="causal", schedule="auto", scale=None, layout="bshd",
              sm_margin=None, forward="auto", invariant=False, return_lse=False,
              fallback="error", timeout_ms=0):
    """softmax(scale q k^T, masked) v, whose gradients have the same bits in every run.

    q: (B, Sq, Hq, D) by layout ("bshd", "bhsd", "sbhd"), k and v: (B, Skv, Hkv, D); bf16 or fp16,
    D 64 or 128, Hkv divides Hq, and query head h has KV head h // (Hq / Hkv). Any strides; the last
    dimension's is 1, others multiples of 8, else a copy is made. Returns out, like q; with
    return_lse also lse: float32 (B, Hq, Sq), natural logarithm. It has no gradient: a loss that
    depends on it raises Unsupported in its backward pass; by torch.compile it is a constant.

    mask: `stagger.mask(...)` or words ("causal", "full", "sliding:left=511,right=0"). Causal masks
    end together where the lengths differ. scale: 1 / sqrt(D). schedule: a name, or "auto", which
    is a pure function of shape, device and version. sm_margin: SMs left free; beside NCCL they are
    found by default. forward: "auto", "cudnn", "flash", "reference", or "fa3", an installed
    FlashAttention-3. invariant: every head is added up in one order, whatever the batch, and the
    forward pass is one whose bits do not depend on it either. fallback: what becomes of a call that
    is refused as Unsupported: an "error", or torch's scaled_dot_product_attention ("sdpa"), which is
    then held to its deterministic way where torch's flag or the environment ask for such alone.
    timeout_ms: the longest wait of the backward pass for a turn, after which it is stopped and its
    gradients are NaN; 0: STAGGER_TIMEOUT_MS, or a minute.

    On the CPU it is for float32 of any D, on threads and for checks: the order is that of a table
    for 16 SMs, whatever sm_margin, and autocast is left out.

    Raises TypeError for what is no tensor, ValueError for tensors that do not fit each other,
    Unsupported, with the reason, for what is not done, UsageError or InputError for a schedule or a
    mask that there is none of, or that does not fit, and Timeout if a call before was stopped.
    """
    on_gpu = _is_on_gpu(q, k=k, v=v)
    if on_gpu and torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        q, k, v = (each.to(dtype) for each in (q, k, v))
    fallbacks.expect_known(fallback)
    timeout_ms = settings.expect_wait(timeout_ms)
    mask, scale = forwards.text_of(mask), _scale(q, scale)
    sm_margin = _margin(sm_margin)
    call = q, k, v, mask, schedule, scale, layout, forward, invariant, sm_margin, timeout_ms
    if fallback == "sdpa" and not (return_lse or invariant):
        return _attended_or_elsewhere(*call)
    out, lse = _attended(*call)
    if not return_lse:
        return out
    # torch.compile would ask for the gradient of whatever it returns.
    return out, lse if shapes.compiles() else logsumexp.refusing(lse, out)


def _attended(q, k, v, mask, schedule, scale, layout, forward, invariant, sm_margin, timeout_ms):
    shapes.check(q, k, v, layout)
    if not q.is_cuda or _will_differentiate(q, k, v):
        _planned(q, k, mask, schedule, layout, sm_margin, invariant)()  # what is refused of it, now
    attend = _on_gpu if q.is_cuda else on_cpu.attention
    return attend(q, k, v, mask, schedule, scale, layout, forward, invariant, sm_margin, timeout_ms)


def _will_differentiate(q, k, v):
    """Whether a backward pass may come; while torch.compile traces, lengths may be open, and none is
    looked for."""
    return not shapes.compiles() and torch.is_grad_enabled() and (
        q.requires_grad or k.requires_grad or v.requires_grad)


def _attended_or_elsewhere(q, k, v, mask, schedule, scale, layout, forward, invariant, sm_margin,
                           timeout_ms):
    """out, or what torch makes of a call that is refused."""
    # A refusal of the backward pass would come when it is too late to go elsewhere.
    why = shapes.refusal(q, k, v, layout) or _no_plan(q, k, mask, schedule, layout, sm_margin,
                                                      invariant)
    if why:
        return fallbacks.sdpa(why, q, k, v, mask, scale, layout)
    try:
        return _attended(q, k, v, mask, schedule, scale, layout, forward, invariant, sm_margin,
                         timeout_ms)[0]
    except errors.Unsupported as error:
        return fallbacks.sdpa(str(error), q, k, v, mask, scale, layout)


def _on_gpu(q, k, v, mask, schedule, scale, layout, forward, invariant, sm_margin, timeout_ms):
    return forward_operator(q, k, v, forwards.name_of(mask), schedule, scale, layout, forward,
                            sm_margin, invariant, timeout_ms)


def _no_plan(q, k, mask, schedule, layout, sm_margin, invariant):
    """Why tensors of these shapes have no plan; "" if they have. While torch.compile traces, lengths
    may be open, and the device alone is looked at."""
    if shapes.compiles():
        return runtime.refusal(q.get_device()) if q.is_cuda else ""
    try:
        _planned(q, k, mask, schedule, layout, sm_margin, invariant)()
    except errors.Unsupported as error:
        return str(error)
    return ""


def _planned(q, k, mask, schedule, layout, sm_margin, invariant):
    """What puts the plan of tensors of these shapes into the cache, and returns it."""
    if q.is_cuda:
        _, key, make = plan_of(q, k, forwards.name_of(mask), schedule, layout, sm_margin, invariant)
        return functools.partial(plans.get, key, make)
    batch, seq_q, heads, seq_kv, heads_kv, dim, _ = shapes.sizes_of(q, k, layout)
    return functools.partial(
        host.plan_of, mask=mask, schedule=schedule, seq_q=seq_q, seq_kv=seq_kv, batch=batch,
        heads=heads, heads_kv=heads_kv, head_dim=dim, invariant=invariant)


def attention_backward(d_out, q, k, v, out, lse, *, mask="causal", schedule="auto", scale=None,
                       layout="bshd", sm_margin=None, invariant=False, timeout_ms=0):
    """dq, dk, dv of attention, for a forward pass of your own.

    Tensors as of attention(); lse: float32 (B, Hq, Sq), natural logarithm of the sum of
    exp(score), either infinity for a query that sees nothing. Gradients have shape and dtype of
    what they are of, on a GPU its strides too, where it has no gaps. Raises what attention() does.
    """
    timeout_ms = settings.expect_wait(timeout_ms)
    on_gpu = _is_on_gpu(q, k=k, v=v, out=out, lse=lse, d_out=d_out)
    mask, scale, sm_margin = forwards.text_of(mask), _scale(q, scale), _margin(sm_margin)
    if on_gpu:
        call = backward_operator if shapes.compiles() else backward_past_autograd
        return call(d_out, q, k, v, out, lse, forwards.name_of(mask), schedule, scale, layout,
                    sm_margin, invariant, timeout_ms)
    shapes.check(q, k, v, layout)
    return on_cpu.backward(d_out, q, k, v, out, lse, mask, schedule, scale, layout, invariant,
                           timeout_ms)


def prepare(q, k, *, mask="causal", schedule="auto", layout="bshd", sm_margin=None,
            invariant=False):
    """Builds and uploads the plan for tensors of these shapes, and returns it: before a graph is
    captured, or to know what a call will do. Arguments as of attention(); a `stagger.Plan`. Raises
    CaptureError while a stream is captured, Unsupported off a GPU of compute capability 9.0."""
    if not _is_on_gpu(q, k=k):
        raise errors.Unsupported(f"q is on {q.device}: plans are prepared on GPUs alone")
    with torch.cuda.device(q.device):
        return image_of(q, k, forwards.name_of(forwards.text_of(mask)), schedule, layout,
                        _margin(sm_margin), invariant)[1].plan


@functools.lru_cache(maxsize=1)
def _workers():
    """The thread that makes plans ahead; another one in a child."""
    return concurrent.futures.ThreadPoolExecutor(1, "stagger-plans")


os.register_at_fork(after_in_child=_workers.cache_clear)


def prefetch(q, k, *, mask="causal", schedule="auto", layout="bshd", sm_margin=None,
             invariant=False):
    """Begins to build the plan for tensors of these shapes in a thread, for masks that change with
    every step: the call that comes takes it, or waits for it. Of q and k shapes, dtype and device
    are looked at. Arguments as of attention(). Returns a concurrent.futures.Future of the
    `stagger.Plan`, whose result() raises what the call would; what the tensors themselves are wrong
    with is raised at once."""
    _is_on_gpu(q, k=k)
    shapes.check(q, k, k, layout)
    return _workers().submit(_planned(q, k, forwards.text_of(mask), schedule, layout,
                                      _margin(sm_margin), invariant))


def workspace_bytes(q, k, **arguments):
    """Bytes of device memory that a backward call takes beside its outputs, freed when it is
    enqueued. Arguments as of prepare()."""
    return prepare(q, k, **arguments).workspace_bytes


__all__ = ["attention", "attention_backward", "ops_available", "prefetch", "prepare",
           "workspace_bytes"]
