"""FlexAttention's own masks, read from files, and its gradients."""

import json
import os
import pathlib
import tempfile

import numpy
import torch

import stagger
from stagger.torch import runtime

from support import attended, bits_of, check, errors_of, exact, report, same, tensors

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


def order_of(mask):
    """Of the plan that is made for the tensors below."""
    device = runtime.device(0)
    return stagger.Plan(mask, "auto", seq_q=768, heads=4, heads_kv=2, head_dim=64, dtype="bf16",
                        sms=device.sms, machine=device.profile).order_digest


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
            masks = [text] + [described] * tiles
            runs = [stagger.attention_backward(d_out, q, k, v, out, lse, mask=each)
                    for each in masks]
            # A mask of tokens may be planned with other tiles, in another order.
            orders = [order_of(each) for each in masks]
        flex = flex_attention(*heads, block_mask=mask, enable_gqa=True)
        theirs = [x.transpose(1, 2) for x in
                  torch.autograd.grad(flex, heads, d_out.transpose(1, 2))]
        wanted = exact(q, k, v, d_out, None, seen)
        ours, flexes = (max(errors_of(each, wanted)) for each in (runs[0], theirs))
        apart = max(errors_of(runs[0], theirs))
        report("block_masks",
               same_tiles and max(ours, flexes, apart) < 7 * 2.0**-8 and
               all(same(bits_of(runs[0]), bits_of(run)) == (orders[0] == order)
                   for run, order in zip(runs, orders)) and
               max(max(errors_of(run, wanted)) for run in runs) < 7 * 2.0**-8,
               mask=text, tiles=same_tiles, error=f"{ours:.1e}", flex=f"{flexes:.1e}",
               apart=f"{apart:.1e}", by_file=tiles, one_order=len(set(orders)) == 1)
