"""Problems of the bench: the grid of 16,384 tokens and a hidden size of 2,048, and a few beside it."""

import dataclasses

from .. import errors

TOKENS, HIDDEN = 16_384, 2_048


@dataclasses.dataclass(frozen=True)
class Case:
    """Sizes of an attention, and its mask: full, causal, or causal in a window of tokens."""

    batch: int
    heads: int
    heads_kv: int
    seq: int
    dim: int
    causal: bool
    window: int = 0  #: tokens that a query sees, itself among them; 0: no limit

    @property
    def mask(self):
        """As stagger.attention takes it."""
        if self.window:
            return f"sliding:left={self.window - 1},right=0"
        return "causal" if self.causal else "full"

    @property
    def name(self):
        heads = f"{self.heads}/{self.heads_kv}" if self.heads_kv != self.heads else f"{self.heads}"
        kind = f"window {self.window}" if self.window else "causal" if self.causal else "full"
        return f"{self.batch} x {heads} x {self.seq} x {self.dim} {kind}"

    @property
    def flops(self):
        """Of the backward pass, as usually counted: five products, half of each if causal."""
        pairs = self.seq * self.seq / (2 if self.causal else 1)
        if self.window:
            outside = max(self.seq - self.window, 0)
            pairs = self.seq * self.seq / 2 - outside * outside / 2
        return 10 * self.batch * self.heads * pairs * self.dim


def grid():
    """24 points: head_dim 64 and 128, full and causal, 512 to 16,384 tokens a sequence."""
    return [Case(TOKENS // seq, HIDDEN // dim, HIDDEN // dim, seq, dim, causal)
            for dim in (64, 128) for causal in (False, True)
            for seq in (512, 1024, 2048, 4096, 8192, 16384)]


def shared_heads():
    """Eight KV heads for 32 query heads, and the same with a KV head each."""
    return [Case(TOKENS // seq, 32, heads_kv, seq, 128, True)
            for seq in (4096, 8192) for heads_kv in (8, 32)]


def windows():
    """A window of 1,024 tokens."""
    return [Case(TOKENS // seq, HIDDEN // 128, HIDDEN // 128, seq, 128, True, 1024)
            for seq in (4096, 16384)]


SETS = {"grid": grid, "shared-heads": shared_heads, "windows": windows}


def chosen(names, matching=()):
    """Cases of the sets by name, those whose own name contains one of some words."""
    cases = [case for name in names for case in SETS[name]()]
    found = [case for case in cases if not matching or any(word in case.name for word in matching)]
    if not found:
        raise errors.UsageError(f"no case is called so: {', '.join(matching)}; there are "
                                f"{', '.join(repr(case.name) for case in cases)}")
    return found
