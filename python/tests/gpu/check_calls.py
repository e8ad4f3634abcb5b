"""What a call touches, takes and refuses."""

import itertools
import os
import warnings

import torch

import stagger

from support import (bits_of, check, errors_of, exact, gradients, raw_call, report, same, tensors,
                     within)


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
            margins = bool((space[:256] == fill).all() and (space[-256:] == fill).all())
            bits = bits_of(grads)
            steady = same(bits, first.setdefault(span, bits))
            report("memory", whole and margins and steady, elastic=elastic, span=span,
                   filled=fill)


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


class Lent:
    """A tensor as another library lends it: by DLPack and nothing else."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__(stream=stream)


@within(60)
def arrays_by_dlpack():
    """Arrays that only have DLPack: the bits of `attention_backward`, on the default stream and on
    one of the caller's, in every layout; what is returned outlives its arrays."""
    for dtype, mask in ((torch.bfloat16, "causal"), (torch.float16, "full")):
        q, k, v, d_out = tensors(2, 700, 8, 128, dtype, heads_kv=2)
        out, lse = stagger.attention(q, k, v, mask=mask, return_lse=True)
        wanted = bits_of(stagger.attention_backward(d_out, q, k, v, out, lse, mask=mask))
        side = torch.cuda.Stream()
        for stream, axes in itertools.product((None, side), ((0, 1, 2, 3), (0, 2, 1, 3))):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream or torch.cuda.current_stream()):
                case = [x.permute(axes).contiguous() for x in (q, k, v, out)]
                lent = [Lent(x) for x in (*case, lse, d_out.permute(axes).contiguous())]
                got = stagger.backward(*lent, mask=mask, schedule="auto",
                                       layout="bshd" if axes[1] == 1 else "bhsd",
                                       stream=stream and stream.cuda_stream)
                del case, lent
                found = [torch.from_dlpack(each) for each in got]
                del got
                noise = [torch.full_like(q, 7.0) for _ in range(4)]  # takes memory that is free
                equal = same(bits_of([x.permute(axes) for x in found]), wanted)
            torch.cuda.synchronize()
            report("arrays_by_dlpack", equal, dtype=dtype, mask=mask, axes=axes,
                   stream="default" if stream is None else "its own")
            del noise


@within(60)
def told_once():
    """What is slow is said once in a process, and a call that is as it should be says nothing."""
    from stagger import once
    once._said.clear()
    q, k, v, d_out = tensors(1, 256, 2, 64)
    apart = q.transpose(2, 3).contiguous().transpose(2, 3)  # a stride along head_dim
    for what, call, most in (
            ("as it should be", lambda: gradients(q, k, v, d_out), 0),
            ("copies", lambda: gradients(apart, k, v, d_out), 1),
            ("plain arithmetic", lambda: gradients(q, k, v, d_out, mask="prefix:length=100"), 1)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                call()
        said = [str(each.message) for each in caught]
        report("told_once", len(said) == most, what=what, said=[each[:60] for each in said])


@check
def peak_memory():
    """A backward pass takes its gradients and the plan's workspace, to 2 MiB."""
    for batch, seq, heads, heads_kv, dim, mask in (
            (2, 2048, 8, 8, 128, "causal"), (1, 8192, 16, 4, 128, "causal"),
            (4, 1000, 8, 1, 64, "full"), (1, 4096, 8, 8, 64, "sliding:left=511,right=0")):
        q, k, v, d_out = tensors(batch, seq, heads, dim, heads_kv=heads_kv)
        out, lse = stagger.attention(q, k, v, mask=mask, return_lse=True)
        plan = stagger.prepare(q, k, mask=mask)
        for _ in range(2):  # the first has the plan's image too
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            grads = stagger.attention_backward(d_out, q, k, v, out, lse, mask=mask)
            peak = torch.cuda.max_memory_allocated() - before
            del grads
        wanted = plan.workspace_bytes + sum(2 * x.numel() for x in (q, k, v))
        report("peak_memory", abs(peak - wanted) <= 2 << 20, peak=peak, wanted=wanted,
               case=f"{batch} x {heads}/{heads_kv} x {seq} x {dim} {mask}")
