"""Hooks: other people's names for attention, whose backward pass becomes Stagger's.

sdpa          torch.nn.functional.scaled_dot_product_attention, by torch's registry or by hand
transformers  attn_implementation="stagger"
torchtitan    inner_attention=StaggerAttention.Config()
megatron      core_attention of a layer's spec
fa3           an installed flash_attn_interface, whose deterministic backward pass is replaced
flash_attn    flash_attn_func by its words, where it is not installed

None acts on import. What a hook is asked for and Stagger does not do is an error with its reason;
it goes elsewhere only where that is asked for by name, with `fallback`.
"""

import importlib

from ..errors import Unsupported

_HOOKS = ("sdpa", "transformers", "torchtitan", "megatron", "fa3", "flash_attn")


def __getattr__(name):
    if name in _HOOKS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def needed(library, error):
    """An ImportError that says which library a hook is for."""
    return ImportError(f"this hook is for {library}, which cannot be imported here: {error}")


def refuse_dropout(probability):
    """Raises Unsupported if attention weights are to be dropped."""
    if probability:
        raise Unsupported(f"dropout of attention weights is {probability}; it is 0 here: set the "
                          "model's attention dropout to 0")


__all__ = [*_HOOKS, "needed", "refuse_dropout"]
