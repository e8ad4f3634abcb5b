"""Of torchtitan b5bcd76c: Module and its Config (protocols/module.py, config/configurable.py), and
VarlenAttention's Config and VarlenMetadata (models/common/attention.py)."""

import dataclasses
import types
from typing import ClassVar, NamedTuple, Optional, Tuple

import torch


class Module(torch.nn.Module):
    @dataclasses.dataclass(kw_only=True)
    class Config:
        _owner: ClassVar = None
        param_init: Optional[dict] = None
        sharding_config: Optional[object] = None

        def build(self, **kwargs):
            return self._owner(config=dataclasses.replace(self), **kwargs)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "Config" in cls.__dict__:
            cls.__dict__["Config"]._owner = cls


class VarlenMetadata(NamedTuple):
    cu_seq_q: torch.Tensor
    cu_seq_k: torch.Tensor
    max_q: int
    max_k: int
    cu_seq_q_host: Optional[Tuple[int, ...]] = None


class VarlenAttention(Module):
    @dataclasses.dataclass(kw_only=True)
    class Config(Module.Config):
        window_size: Tuple[int, int] = (-1, 0)

    def __init__(self, config):
        raise AssertionError("it would activate FA3")


def modules():
    """What the hook imports."""
    return {"torchtitan": types.ModuleType("torchtitan"),
            "torchtitan__models": types.ModuleType("torchtitan.models"),
            "torchtitan__models__common": types.ModuleType("torchtitan.models.common"),
            "torchtitan__models__common__attention": types.SimpleNamespace(
                VarlenAttention=VarlenAttention),
            "torchtitan__protocols": types.ModuleType("torchtitan.protocols"),
            "torchtitan__protocols__module": types.SimpleNamespace(Module=Module)}


def metadata(*ends, host=True):
    """Of documents that end at these tokens."""
    cu_seq = torch.tensor([0, *ends], dtype=torch.int32)
    longest = max(end - begin for begin, end in zip([0, *ends], ends))
    return VarlenMetadata(cu_seq, cu_seq, longest, longest, (0, *ends) if host else None)
