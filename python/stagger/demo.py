"""python -m stagger demo: a model that is trained twice, to the same bits.

A Llama-like model of 111 M parameters on sequences of an order-1 Markov chain, so that the loss
falls: fp32 weights, bf16 autocast, AdamW. Every run begins with the same seed; after it the SHA-256
of all weights and moments says whether two runs are one.
"""

import dataclasses
import hashlib
import math
import pathlib
import time

import numpy as np


class Config:
    """Sizes of the model and of a step."""

    def __init__(self, steps=200, vocab=16_384, width=1_024, layers=8, heads=8, heads_kv=4,
                 hidden=2_816, seq=4_096, batch=8, rate=3e-4, warmup=20):
        self.steps, self.vocab, self.width, self.layers = steps, vocab, width, layers
        self.heads, self.heads_kv, self.hidden = heads, heads_kv, hidden
        self.seq, self.batch, self.rate, self.warmup = seq, batch, rate, warmup
        self.dim = width // heads


def tokens(config, step):
    """The tokens of a step, int64 (batch, seq + 1): each of them has eight successors, which are a
    hash of it; the choices are Philox's, by the step."""
    rng = np.random.Generator(np.random.Philox(key=7, counter=step))
    choices = rng.integers(0, 8, (config.batch, config.seq + 1))
    chain = np.empty_like(choices)
    chain[:, 0] = rng.integers(0, config.vocab, config.batch)
    for place in range(1, config.seq + 1):
        chain[:, place] = (chain[:, place - 1] * 1_103_515_245 + choices[:, place] * 12_345 +
                           977) % config.vocab
    return chain


def model_of(config, attend):
    """The model; attend(q, k, v) is causal attention on (B, S, H, D)."""
    import torch
    from torch import nn
    from torch.nn import functional

    frequencies = 10_000.0 ** -(torch.arange(0, config.dim, 2, device="cuda") / config.dim)
    angles = torch.arange(config.seq, device="cuda")[:, None] * frequencies
    turns = angles.cos()[None, :, None], angles.sin()[None, :, None]

    def rotated(x):
        even, odd = x.float().chunk(2, -1)
        cos, sin = turns
        return torch.cat([even * cos - odd * sin, even * sin + odd * cos], -1).to(x.dtype)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            rows = config.width + 2 * config.heads_kv * config.dim
            self.before, self.between = nn.RMSNorm(config.width), nn.RMSNorm(config.width)
            self.qkv = nn.Linear(config.width, rows, bias=False)
            self.out = nn.Linear(config.width, config.width, bias=False)
            self.gates = nn.Linear(config.width, 2 * config.hidden, bias=False)
            self.down = nn.Linear(config.hidden, config.width, bias=False)

        def forward(self, x):
            heads = self.qkv(self.before(x)).unflatten(-1, (-1, config.dim))
            q, k, v = heads.split([config.heads, config.heads_kv, config.heads_kv], 2)
            x = x + self.out(attend(rotated(q), rotated(k), v).flatten(2))
            gate, up = self.gates(self.between(x)).chunk(2, -1)
            return x + self.down(functional.silu(gate) * up)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(config.vocab, config.width)
            self.layers = nn.ModuleList(Layer() for _ in range(config.layers))
            self.norm = nn.RMSNorm(config.width)

        def forward(self, inputs, targets):
            x = self.embedding(inputs)
            for layer in self.layers:
                x = layer(x)
            scores = functional.linear(self.norm(x), self.embedding.weight)
            return functional.cross_entropy(scores.flatten(0, 1).float(), targets.flatten())

    torch.manual_seed(1)
    model = Model().cuda()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    return model


def attention_of(run):
    """How a run attends: stagger's attention, or torch's by flash or cuDNN."""
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from .torch import attention
    if run.attention == "stagger":
        return attention
    if run.attention == "stagger-invariant":
        return lambda q, k, v: attention(q, k, v, invariant=True, sm_margin=run.margin,
                                         forward="flash")
    backend = {"flash": SDPBackend.FLASH_ATTENTION,
               "cudnn": SDPBackend.CUDNN_ATTENTION}[run.attention]

    def attend(q, k, v):
        group = q.shape[2] // k.shape[2]
        q, k, v = (x.transpose(1, 2) for x in (q, k.repeat_interleave(group, 2),
                                               v.repeat_interleave(group, 2)))
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

    return attend


def digest(model, optimizer):
    """SHA-256 of every weight and moment, as they lie in memory."""
    import torch
    total = hashlib.sha256()
    states = [value for parameter in model.parameters()
              for value in optimizer.state.get(parameter, {}).values() if torch.is_tensor(value)]
    for tensor in (*model.parameters(), *states):
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def train(config, run, compiled=False, report=20):
    """A run, from the seed or from its checkpoint. Returns what it showed."""
    import torch
    torch.use_deterministic_algorithms(run.strict)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.cuda.reset_peak_memory_stats()
    model = model_of(config, attention_of(run))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.rate, betas=(0.9, 0.95),
                                  weight_decay=0.1)
    begin, until = run.steps_of(config.steps)
    if begin:
        saved = torch.load(CHECKPOINT, map_location="cuda")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    forward = torch.compile(model) if compiled else model
    digests, losses, ends = {}, {}, []
    for step in range(begin, until):
        batch = torch.from_numpy(tokens(config, step)).cuda()
        warm = min(1.0, (step + 1) / config.warmup)
        for group in optimizer.param_groups:
            group["lr"] = config.rate * warm * 0.5 * (1 + math.cos(math.pi * step / config.steps))
        with torch.autocast("cuda", torch.bfloat16):
            loss = forward(batch[:, :-1], batch[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        ends.append(torch.cuda.Event(enable_timing=True))
        ends[-1].record()
        if (step + 1) % report == 0 or step + 1 in (1, until):
            digests[step + 1], losses[step + 1] = digest(model, optimizer), round(loss.item(), 4)
    torch.cuda.synchronize()
    if run.half == "first":
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, CHECKPOINT)
    times = sorted(a.elapsed_time(b) for a, b in zip(ends[2:], ends[3:]))
    rate = config.batch * config.seq / times[len(times) // 2] * 1e3 if times else 0
    return {"attention": run.attention, "strict": run.strict, "margin": run.margin, "begin": begin,
            "digests": digests, "losses": losses, "tokens_per_s": round(rate),
            "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)}


@dataclasses.dataclass(frozen=True)
class Run:
    """A training run: whose attention, under torch's deterministic flag or not, how many SMs it
    leaves free, and which half of the steps it does ("": all of them)."""

    name: str
    attention: str
    strict: bool = True
    margin: int = 0
    half: str = ""

    def steps_of(self, steps):
        """The first step, and the one behind the last."""
        return {"": (0, steps), "first": (0, steps // 2), "second": (steps // 2, steps)}[self.half]


CHECKPOINT = pathlib.Path("stagger-demo.pt")
RUNS = [Run("A1", "stagger"), Run("A2", "stagger"),
        Run("A3 to half", "stagger", half="first"), Run("A3", "stagger", half="second"),
        Run("A4", "stagger-invariant", margin=16), Run("A5", "stagger-invariant"),
        Run("A6a", "stagger", strict=False), Run("A6b", "stagger", strict=False),
        Run("B1", "flash", strict=False), Run("B2", "flash", strict=False),
        Run("C1", "flash"), Run("C2", "flash"),
        Run("D1", "cudnn", strict=False), Run("D2", "cudnn", strict=False)]
PAIRS = [("A1", "A2"), ("A1", "A3"), ("A4", "A5"), ("A6a", "A6b"), ("B1", "B2"), ("C1", "C2"),
         ("D1", "D2")]
PROMISED = PAIRS[:3]  # pairs that are to have the same bits


def compare(runs, names):
    """The first step at which two runs differ; None if they do not."""
    first, second = (runs[name]["digests"] for name in names)
    return next((step for step in sorted(set(first) & set(second))
                 if first[step] != second[step]), None)


def found_of(runs):
    """The first step at which the runs of each pair differ, of pairs that ran."""
    return {names: compare(runs, names) for names in PAIRS if all(name in runs for name in names)}


def main(steps=200, output=None, only=(), compiled=False, every=20):
    """Trains twice, resumes once, and beside that by torch's own kernels. Returns whether the pairs
    that are promised the same bits have them. `only`: runs whose names begin with one of these; `every`:
    steps between digests, which take two seconds each."""
    import os
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch

    from .bench import run as files
    from .torch import runtime
    runtime.expect_gpu()
    if output:
        files.expect_writable(output)
    config = Config(steps=steps)
    document = {"schema": "stagger.demo-train/1", "steps": steps, "compiled": compiled,
                "torch": torch.__version__, "device": torch.cuda.get_device_name(),
                "first_difference": {}, "runs": {}}
    for run in RUNS:
        if only and not run.name.startswith(tuple(only)):
            continue
        begin = time.perf_counter()
        done = document["runs"][run.name] = train(config, run, compiled, every)
        last = max(done["digests"])
        print(f"{run.name:<11}{run.attention}{', deterministic flag' if run.strict else ''}"
              f"{f', {run.margin} SMs free' if run.margin else ''}: step {last}, loss "
              f"{done['losses'][last]}, {done['digests'][last]}, {done['tokens_per_s']:,} tokens/s, "
              f"{time.perf_counter() - begin:.0f} s", flush=True)
        torch.cuda.empty_cache()
        found = found_of(document["runs"])
        document["first_difference"] = {" = ".join(names): step for names, step in found.items()}
        if output:  # what is done is kept if the rest is not
            files.save(document, output)
    CHECKPOINT.unlink(missing_ok=True)
    for names, step in found.items():
        print(f"{' = '.join(names)}: "
              f"{'the same bits' if step is None else f'differ from step {step} on'}")
    return all(found.get(names) is None for names in PROMISED)
