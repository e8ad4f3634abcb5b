"""torch's own ways to an attention: operators, torch.compile, SDPA, transformers."""

import time

import torch

import stagger
from stagger.torch import forward as forwards

from support import check, errors_of, exact, gradients, report, same, tensors, within


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


@within(120)
def elsewhere_compiled():
    """fallback="sdpa" under torch.compile: one graph, and gradients as in eager, of what is refused
    and of what is not."""
    import torch._dynamo
    import warnings
    for dim, mask in ((96, "causal"), (96, "sliding:left=63,right=0"), (128, "causal")):
        torch._dynamo.reset()
        case = tensors(2, 384, 4, dim, heads_kv=2)
        leaves = [x.requires_grad_() for x in case[:3]]

        def attend(q, k, v, mask=mask):
            return stagger.attention(q * 1.0, k, v, mask=mask, fallback="sdpa")

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eager = torch.autograd.grad(attend(*leaves), leaves, case[3])
            found = torch.autograd.grad(torch.compile(attend, fullgraph=True)(*leaves), leaves,
                                        case[3])
        right = exact(*case[:3], case[3], mask)
        worst = [max(errors_of(each, right)) for each in (eager, found)]
        report("elsewhere_compiled", max(worst) < 7 * 2.0**-8 and
               (dim != 128 or same(eager, found)), head_dim=dim, mask=mask,
               errors=[f"{each:.1e}" for each in worst])


@within(120)
def long_masks():
    """A mask of many documents, whose text travels by a name, under torch.compile: eager's bits, and
    compiled once."""
    import torch._dynamo
    torch._dynamo.reset()
    lengths = [7 + 11 * (number % 5) for number in range(40)]
    mask = stagger.mask("document", lengths=lengths, causal=True)
    case, built = tensors(1, sum(lengths), 4, 64, heads_kv=2), []

    def counted(module, inputs):
        built.append(module)
        return module.forward

    def attend(q, k, v):
        return stagger.attention(q * 1.0, k, v, mask=mask)

    compiled = torch.compile(attend, backend=counted, fullgraph=True)
    leaves = [x.requires_grad_() for x in case[:3]]
    eager = torch.autograd.grad(attend(*leaves), leaves, case[3])
    equal = [same(eager, torch.autograd.grad(compiled(*leaves), leaves, case[3]))
             for _ in range(3)]
    worst = max(errors_of(eager, exact(*case[:3], case[3], mask.text)))
    report("long_masks", all(equal) and len(built) == 1 and worst < 7 * 2.0**-8,
           letters=len(mask.text), compiled=len(built), error=f"{worst:.1e}")


@check
def gradient_of_lse():
    """A loss that has the logsumexp is refused: its gradient is nobody's."""
    q, k, v, _ = tensors(1, 256, 2, 64)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    for what, loss in (("lse", lambda out, lse: lse.sum()),
                       ("both", lambda out, lse: out.float().sum() + lse.sum())):
        try:
            loss(*stagger.attention(*leaves, return_lse=True)).backward()
            said = "nothing"
        except stagger.Unsupported as error:
            said = str(error)
        report("gradient_of_lse", "lse" in said, loss=what, said=said[:60])
