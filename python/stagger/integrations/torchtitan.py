"""torchtitan: an inner attention with Stagger's gradients.

    from stagger.integrations.torchtitan import StaggerAttention
    attention.inner_attention = StaggerAttention.Config()      # of every layer's config

Its Config is one of torchtitan's VarlenAttention, so that models make the metadata of packed
documents for it. q, k and v are (T, N, H), documents one behind the other, or (B, L, N, H).

A plan is made on the host, so it needs the documents' lengths there: `cu_seq_q_host` of the metadata,
or, with wait_for_lengths=True, read from the device, which waits for it once a step. Documents of new
lengths are a new plan, O(tasks) to make.
Refused: windows other than (-1, 0), causal, and (-1, -1), full; keys beside queries of another
length (context parallel); out_transform; and what the kernel does not do. A refusal is an error.

Signatures: torchtitan b5bcd76c (2026-08), models/common/attention.py (VarlenAttention,
ScaledDotProductAttention, VarlenMetadata) and protocols/module.py (Module).
"""

import dataclasses
import weakref

from .. import errors
from ..masks import mask as make_mask
from ..masks import window
from . import needed

try:
    from torchtitan.models.common.attention import VarlenAttention
    from torchtitan.protocols.module import Module
except ImportError as error:
    raise needed("torchtitan", error) from error

_WINDOWS = {(-1, 0): True, (-1, -1): False}


class _Lengths:
    """Documents' ends that were read from the device, while their tensor lives: one wait a step."""

    def __init__(self):
        self._tensor, self._ends = None, None

    def of(self, tensor):
        if self._tensor is None or self._tensor() is not tensor:
            self._ends = tuple(tensor.tolist())
            self._tensor = weakref.ref(tensor)
        return self._ends


_lengths = _Lengths()


def document_mask(metadata, tokens, causal, wait):
    """The mask of packed documents by torchtitan's metadata (a VarlenMetadata)."""
    if metadata.cu_seq_q is not metadata.cu_seq_k:
        raise errors.Unsupported("documents of queries and of keys differ (context parallel?)")
    ends = metadata.cu_seq_q_host
    if ends is None:
        if not wait:
            raise errors.Unsupported(
                "the documents' lengths lie on the device: make the metadata with "
                "include_host_offsets=True, or take StaggerAttention.Config(wait_for_lengths=True)")
        ends = _lengths.of(metadata.cu_seq_q)
    if ends[0] != 0 or ends[-1] != tokens:
        raise errors.Unsupported(f"documents from {ends[0]} to {ends[-1]} in {tokens} tokens")
    lengths = [end - begin for begin, end in zip(ends, ends[1:]) if end > begin]
    if len(lengths) == 1:
        return window(causal)
    words = f"document:lengths={'+'.join(map(str, lengths))}"
    return make_mask(words + (",causal=true" if causal else ""))


class StaggerAttention(Module):
    """Attention over heads of one device, for GQAttention and whoever has an `inner_attention`."""

    @dataclasses.dataclass(kw_only=True, slots=True)
    class Config(VarlenAttention.Config):
        schedule: str = "auto"
        sm_margin: int | None = None
        invariant: bool = False
        wait_for_lengths: bool = False

    def __init__(self, config):
        super().__init__()
        if tuple(config.window_size) not in _WINDOWS:
            raise errors.Unsupported(f"window_size {config.window_size}: it is (-1, 0) or (-1, -1)")
        self.config = config

    def forward(self, q_TNH, k_TNH, v_TNH, *, attention_masks=None, scale=None, enable_gqa=False,
                is_causal=None, out_transform=None, **kwargs):
        import stagger
        if out_transform is not None:
            raise errors.Unsupported("out_transform: lse has no gradient")
        config = self.config
        causal = _WINDOWS[tuple(config.window_size)] if is_causal is None else is_causal
        packed = q_TNH.dim() == 3
        if k_TNH.shape[-3] != q_TNH.shape[-3]:
            raise errors.Unsupported(f"{q_TNH.shape[-3]} queries and {k_TNH.shape[-3]} keys "
                                     "(context parallel?)")
        if not packed and attention_masks is None:
            mask = window(causal)
        elif packed and hasattr(attention_masks, "cu_seq_q"):
            mask = document_mask(attention_masks, q_TNH.shape[0], causal, config.wait_for_lengths)
        else:
            raise errors.Unsupported(
                f"{'(T, N, H)' if packed else '(B, L, N, H)'} with attention_masks of "
                f"{type(attention_masks).__name__}: packed tokens have a VarlenMetadata, others None")
        q, k, v = (each[None] if packed else each for each in (q_TNH, k_TNH, v_TNH))
        out = stagger.attention(q, k, v, mask=mask, scale=scale, schedule=config.schedule,
                                sm_margin=config.sm_margin, invariant=config.invariant)
        return out[0] if packed else out
