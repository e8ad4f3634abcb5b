"""A transformer block in torch, with a boundary wherever `stagger block` has another kernel.

The dimensions are those of configs/models. Elementwise operations are written as model code has
them (RMS norms in fp32, RoPE by halves, SwiGLU of one GEMM), so that eager and compiled blocks are
what they are elsewhere. Experts are balanced, without a router: equal parts of the tokens go to
each set of active experts.
"""

import dataclasses
import json
import pathlib

import torch
from torch.nn import functional

from .cases import Case

NORMS = "norms and residuals"
EXPERTS, SPLIT = "experts", "split"  # what `stagger block` has no kernel of
_EPSILON = 1e-5
_ROPE_BASE = 500_000.0


@dataclasses.dataclass(frozen=True)
class Model:
    """What a file of configs/models says, where a block in torch heeds it."""

    name: str
    hidden: int
    heads: int
    heads_kv: int
    head_dim: int
    ffn: int
    activation: str
    rope: bool
    attention: str
    seq: int
    batch: int
    window: int = 0
    experts: int = 1
    active: int = 1

    def case(self, seq, batch):
        """Its attention on so many tokens."""
        return Case(batch, self.heads, self.heads_kv, seq, self.head_dim,
                    self.attention != "full", self.window)


def read(path):
    """A model of a `stagger.model/1` file."""
    data = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    experts = data.pop("experts", {"count": 1, "active": 1})
    known = {field.name for field in dataclasses.fields(Model)}
    return Model(**{key: value for key, value in data.items() if key in known},
                 experts=experts["count"], active=experts["active"])


def unmarked(before, after, *tensors):
    """A boundary that nobody times."""
    return tensors


def _rms_norm(x, weight):
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + _EPSILON)
    return weight * wide.to(x.dtype)


def _rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Block(torch.nn.Module):
    """One block: called with tokens (B, S, hidden) and an attention of (B, S, H, D) tensors, it
    returns what the next one is given. `between(before, after, *tensors)` is called at every
    boundary of two kernels and returns the tensors."""

    def __init__(self, model, seq, device, dtype, seed=0):
        super().__init__()
        self.model = model
        generator = torch.Generator(device).manual_seed(seed)
        gated = model.activation == "swiglu"
        self.widths = [heads * model.head_dim for heads in
                       (model.heads, model.heads_kv, model.heads_kv)]  #: of q, k and v

        def weight(*shape):
            values = torch.randn(shape, generator=generator, device=device) * model.hidden ** -0.5
            return torch.nn.Parameter(values.to(dtype))

        def ones():
            return torch.nn.Parameter(torch.ones(model.hidden, device=device, dtype=dtype))

        for which in range(2):
            self.register_parameter(f"norm{which}", ones())
            if not gated:
                self.register_parameter(f"shift{which}",
                                        torch.nn.Parameter(torch.zeros_like(ones())))
        self.qkv = weight(sum(self.widths), model.hidden)
        self.out = weight(model.hidden, self.widths[0])
        for expert in range(model.experts):
            self.register_parameter(f"up{expert}",
                                    weight((2 if gated else 1) * model.ffn, model.hidden))
            self.register_parameter(f"down{expert}", weight(model.hidden, model.ffn))
        self._place(seq, device, dtype)

    def _place(self, seq, device, dtype):
        """The tables of RoPE, (S, 1, D)."""
        half = torch.arange(0, self.model.head_dim, 2, device=device).float()
        angles = torch.arange(seq, device=device).float()[:, None] * \
            _ROPE_BASE ** (-half / self.model.head_dim)
        angles = torch.cat((angles, angles), -1)[:, None]
        self.register_buffer("cos", angles.cos().to(dtype))
        self.register_buffer("sin", angles.sin().to(dtype))

    def forward(self, x, attend, between=unmarked):
        q, k, v = self._projected(self._norm(x, 0), between)
        out, = between("attention", "o", attend(q, k, v))
        out, = between("o", NORMS, functional.linear(out.flatten(2), self.out))
        x = x + out
        return x + self._ffn(self._norm(x, 1), between)

    def _norm(self, x, which):
        weight = getattr(self, f"norm{which}")
        if self.model.activation == "swiglu":
            return _rms_norm(x, weight)
        return functional.layer_norm(x, x.shape[-1:], weight, getattr(self, f"shift{which}"),
                                     _EPSILON)

    def _projected(self, x, between):
        model = self.model
        x, = between(NORMS, "qkv", x)
        place = "rope" if model.rope else SPLIT
        packed, = between("qkv", place, functional.linear(x, self.qkv))
        q, k, v = [each.unflatten(-1, (-1, model.head_dim))
                   for each in packed.split(self.widths, -1)]
        if model.rope:
            q, k = [_rotated(each, self.cos, self.sin) for each in (q, k)]
        return between(place, "attention", q, k, v)

    def _ffn(self, x, between):
        """Each part of the tokens through its own active experts; one part where all are."""
        model, gate = self.model, "gate+up" if self.model.activation == "swiglu" else "up"
        mixed = model.experts > 1
        if mixed:
            x, = between(NORMS, EXPERTS, x)
            parts = x.flatten(0, 1).chunk(model.experts // model.active)
        else:
            parts = (x,)
        parts = between(EXPERTS if mixed else NORMS, gate, *parts)
        wide = [functional.linear(parts[expert // model.active], getattr(self, f"up{expert}"))
                for expert in range(model.experts)]
        wide = between(gate, "activation", *wide)
        wide = between("activation", "down", *[self._activated(each) for each in wide])
        narrow = between("down", EXPERTS if mixed else NORMS,
                         *[functional.linear(wide[expert], getattr(self, f"down{expert}"))
                           for expert in range(model.experts)])
        if not mixed:
            return narrow[0]
        sums = [sum(narrow[first:first + model.active]) / model.active
                for first in range(0, model.experts, model.active)]
        y, = between(EXPERTS, NORMS, torch.cat(sums).view_as(x))
        return y

    def _activated(self, x):
        if self.model.activation == "gelu":
            return functional.gelu(x)
        gate, up = x.chunk(2, -1)
        return functional.silu(gate) * up
