"""Tensors of a call: layouts, strides, and what is refused of them, with the reason."""

import torch

from .. import errors
from ..host import LAYOUTS
from . import runtime


def view(tensor, layout):
    """A tensor as (B, S, H, D)."""
    return tensor.permute(*LAYOUTS[layout], 3)


def back(tensor, layout):
    """(B, S, H, D) as the layout has it."""
    places = (*LAYOUTS[layout], 3)
    return tensor.permute(*(places.index(axis) for axis in range(4)))


def strides_of(tensor, layout):
    """Strides of batch, row and head."""
    strides = tensor.stride()
    return [strides[axis] for axis in LAYOUTS[layout]]


def suits_copies(tensor):
    """Whether the copy engine takes a tensor's strides: 16 bytes each, dim without gaps."""
    return tensor.stride(-1) == 1 and all(
        size == 1 or (stride > 0 and stride % 8 == 0)
        for size, stride in zip(tensor.shape[:-1], tensor.stride()[:-1]))


def sizes_of(q, k, layout):
    """(batch, seq_q, heads, seq_kv, heads_kv, dim, dtype) of a problem."""
    batch, seq_q, heads, dim = view(q, layout).shape
    _, seq_kv, heads_kv, _ = view(k, layout).shape
    return batch, seq_q, heads, seq_kv, heads_kv, dim, q.dtype


def expect_tensors(**named):
    """Raises TypeError for what is no tensor."""
    for name, each in named.items():
        if not isinstance(each, torch.Tensor):
            raise TypeError(f"{name} is a {type(each).__name__}, not a torch.Tensor (stagger.backward "
                            "takes numpy's arrays, and those of a GPU by DLPack)")


def compiles():
    """Whether torch.compile traces a call."""
    return hasattr(torch, "compiler") and torch.compiler.is_compiling()


def _executor_refusal(name, tensor):
    """Why what runs on the tensor's device does not take its numbers; "" if it does."""
    device, dtype = tensor.device.type, tensor.dtype
    if tensor.layout != torch.strided:
        return f"{name} is {tensor.layout}; what is done is dense tensors"
    if device not in ("cpu", "cuda"):
        return (f"{name} is on {tensor.device}; the kernel is for GPUs of compute capability 9.0, "
                "threads are for the CPU")
    if device == "cuda" and dtype not in runtime.DTYPES:
        return f"{name} is {dtype}; the kernel is for bf16 and fp16"
    if device == "cpu" and dtype != torch.float32:
        return (f"{name} is {dtype} on the CPU, where float32 is done; the kernel, on GPUs of compute "
                "capability 9.0, is for bf16 and fp16")
    return ""


def check(q, k, v, layout):
    """Raises Unsupported or ValueError, with the reason, for what is not done."""
    why = refusal(q, k, v, layout)
    if why:
        raise errors.Unsupported(why)


def refusal(q, k, v, layout):
    """Why what fits together is not done; "" if it is. Raises ValueError for what does not fit."""
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ValueError(f"layout is bshd, bhsd or sbhd, not {layout!r}")
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != 4:
            raise ValueError(f"{name} has {tensor.dim()} dimensions; it has 4 ({layout})")
        why = _executor_refusal(name, tensor)
        if why:
            return why
        if tensor.dtype != q.dtype or tensor.device != q.device:
            raise ValueError(f"{name} is {tensor.dtype} on {tensor.device}, q is {q.dtype} on "
                             f"{q.device}")
    batch, _, heads, dim = view(q, layout).shape
    batch_k, seq_kv, heads_kv, dim_k = view(k, layout).shape
    if batch_k != batch or dim_k != dim:
        raise ValueError(f"k is {tuple(k.shape)}, q is {tuple(q.shape)} ({layout}); k has q's batch and "
                         "head_dim")
    if v.shape != k.shape:
        if v.shape[:-1] != k.shape[:-1]:
            raise ValueError(f"v is {tuple(v.shape)}, k is {tuple(k.shape)} ({layout}); v has k's batch, "
                             "rows and heads")
        return f"head_dim of v is {v.shape[-1]}, that of k {dim}; what is done is one for both"
    if min(q.shape) == 0 or min(k.shape) == 0:
        return "a tensor without elements"
    if heads % heads_kv != 0:
        raise ValueError(f"{heads} query heads are no multiple of {heads_kv} KV heads")
    if q.is_cuda and dim not in (64, 128):
        return f"head_dim is {dim}; the kernel is for 64 and 128"
    return ""


def check_outputs(q, out, d_out, lse, layout):
    """Raises ValueError for outputs of a forward pass, or a gradient of them, that do not fit q."""
    for name, tensor in (("d_out", d_out), ("out", out)):
        if tensor.shape != q.shape or tensor.dtype != q.dtype or tensor.device != q.device:
            raise ValueError(f"{name} is {tensor.dtype} {tuple(tensor.shape)} on {tensor.device}, "
                             f"q is {q.dtype} {tuple(q.shape)} on {q.device}")
    batch, rows, heads, _ = view(q, layout).shape
    if lse.dtype != torch.float32 or lse.shape != (batch, heads, rows) or lse.device != q.device:
        raise ValueError(f"lse is {lse.dtype} {tuple(lse.shape)} on {lse.device}; it is float32 "
                         f"(B, Hq, Sq) on {q.device}")
