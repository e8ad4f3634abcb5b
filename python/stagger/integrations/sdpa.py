"""torch's flash attention: its backward pass on CUDA becomes Stagger's; its forward pass stays.

    torch.nn.attention.activate_flash_attention_impl("STAGGER")    # where torch has the registry
    handle = stagger.integrations.sdpa.install()                   # anywhere; handle.remove()

From then on the gradients of torch.nn.functional.scaled_dot_product_attention have Stagger's bits.
SDPA's cuDNN and memory-efficient ways are turned off meanwhile, since their gradients would not:
what flash does not take (a mask tensor) is left to SDPA's own arithmetic.

Refused: dropout, packed sequences (cu_seqlens lie on the device, and a plan is made on the host),
causal masks of unequal lengths, where SDPA and flash mean different things, and what the kernel does
not do (head_dim other than 64 and 128, other GPUs). A refusal is an error at the backward pass;
`install(fallback="torch")`, or "STAGGER_OR_TORCH" in the registry, gives those calls to torch's own
kernel, which is deterministic under torch.use_deterministic_algorithms(True), and says so once.

Signatures: torch 2.11, aten/src/ATen/native/native_functions.yaml, and
torch/nn/attention/_registry.py for the registry, which calls a function without arguments and keeps
what it returns until it calls its remove().
"""

import functools
import warnings

import torch

from .. import errors, settings
from ..masks import window

NAME, NAME_OR_TORCH = "STAGGER", "STAGGER_OR_TORCH"


def _refuse(dropout_p, cum_seq_q, cum_seq_k):
    """Raises Unsupported for what both operators may be asked for and the kernel does not do."""
    if dropout_p:
        raise errors.Unsupported(f"dropout_p is {dropout_p}; it is 0 here")
    if cum_seq_q is not None or cum_seq_k is not None:
        raise errors.Unsupported("packed sequences: cu_seqlens lie on the device; call "
                                 "stagger.attention with a document mask of their lengths")


def _operator():
    """stagger::backward, which is made when it is first asked for. Raises ImportError if torch is too old
    for it."""
    from ..torch.calls import expect_operators
    expect_operators()
    from ..torch import operators
    return operators.backward_operator


def _run(grad_out, query, key, value, out, logsumexp, mask, scale, layout):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return _operator()(grad_out, query, key, value, out, logsumexp, mask.text, "auto", scale,
                        layout, -1, False)


def sdpa_backward(grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k,
                  dropout_p, is_causal, philox_seed, philox_offset, *, scale=None):
    """aten::_scaled_dot_product_flash_attention_backward on (B, H, S, D)."""
    _refuse(dropout_p, cum_seq_q, cum_seq_k)
    if is_causal and query.shape[2] != key.shape[2]:
        raise errors.Unsupported(
            f"is_causal with {query.shape[2]} queries and {key.shape[2]} keys: SDPA aligns it at "
            "the beginning, flash at the end")
    return _run(grad_out, query, key, value, out, logsumexp, window(is_causal), scale, "bhsd")


def flash_backward(grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k,
                   dropout_p, is_causal, rng_state, unused, *, scale=None, window_size_left=None,
                   window_size_right=None):
    """aten::_flash_attention_backward on (B, S, H, D)."""
    _refuse(dropout_p, cum_seq_q, cum_seq_k)
    mask = window(is_causal, window_size_left, window_size_right)
    return _run(grad_out, query, key, value, out, logsumexp, mask, scale, "bshd")


#: Operators whose kernels are replaced, and by what.
KERNELS = {"_scaled_dot_product_flash_attention_backward": sdpa_backward,
           "_flash_attention_backward": flash_backward}


def or_torch(kernel, original):
    """A kernel that gives what Stagger refuses to torch's own."""
    @functools.wraps(kernel)
    def run(keyset, *args, **kwargs):
        try:
            return kernel(*args, **kwargs)
        except errors.Unsupported as error:
            strict = settings.strictness()
            if strict and not torch.are_deterministic_algorithms_enabled():
                raise errors.Unsupported(
                    f"{error}; and {strict} forbids torch's own flash backward pass, which is "
                    "deterministic under torch.use_deterministic_algorithms(True) alone") from error
            warnings.warn(f"torch's own flash backward pass instead of Stagger's: {error}",
                          stacklevel=2)
        return original.call_boxed(keyset, *args, **kwargs)
    return run


class Handle:
    """Kernels that were replaced and ways of SDPA that were turned off, until remove()."""

    def __init__(self, library, ways):
        self.library, self._ways = library, ways

    def remove(self):
        """torch's kernels, and its choice between them, are back."""
        self.library = None  # a Library that goes takes its kernels along
        for enable, was in self._ways:
            enable(was)
        self._ways = ()


def _only_flash():
    """Turns off what SDPA might take instead of flash; returns how to turn it on again."""
    cuda = torch.backends.cuda
    ways = [(cuda.enable_mem_efficient_sdp, cuda.mem_efficient_sdp_enabled()),
            (cuda.enable_cudnn_sdp, cuda.cudnn_sdp_enabled())]
    for enable, _ in ways:
        enable(False)
    return ways


def _originals():
    """torch's kernels, by name, taken before they are replaced: a replaced operator that is called
    again would be ours."""
    get_kernel = getattr(torch.library, "get_kernel", None)
    if get_kernel is None:
        raise errors.Unsupported(f"torch {torch.__version__} has no torch.library.get_kernel, "
                                 "without which its own kernels cannot be called: fallback is "
                                 "\"error\" here")
    return {name: get_kernel(f"aten::{name}", "CUDA") for name in KERNELS}


def install(fallback="error"):
    """Replaces torch's flash backward kernels until the returned handle's remove(). `fallback` is
    "error", or "torch" for calls that Stagger refuses. Raises ImportError by torch before 2.4, and
    RuntimeError if another library has replaced them."""
    if fallback not in ("error", "torch"):
        raise errors.UsageError(f"fallback is \"error\" or \"torch\", not {fallback!r}")
    _operator()
    originals = _originals() if fallback == "torch" else None
    library = torch.library.Library("aten", "IMPL")
    for name, kernel in KERNELS.items():
        if originals is None:
            library.impl(name, kernel, "CUDA")
        else:
            library.impl(name, or_torch(kernel, originals[name]), "CUDA", with_keyset=True)
    return Handle(library, _only_flash())


def register():
    """Puts the hook into torch's registry of flash attentions, without activating it; returns
    whether this torch has one."""
    try:
        from torch.nn.attention import register_flash_attention_impl as add
    except ImportError:  # torch before 2.10
        return False
    add(NAME, register_fn=install)
    add(NAME_OR_TORCH, register_fn=functools.partial(install, "torch"))
    return True
