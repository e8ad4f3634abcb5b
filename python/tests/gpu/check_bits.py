"""The same bits: in every layout, beside other work, in graphs, alone and in a batch."""

import json
import math
import pathlib
import tempfile

import torch

import stagger

from support import bits_of, check, gradients, report, same, tensors, within


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


@check
def locked():
    """A lock file has the order that ran, takes its schedule, and refuses another order."""
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
