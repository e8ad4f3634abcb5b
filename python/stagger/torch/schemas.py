"""Whether torch's operators, and FlashAttention-3's function, are what the forward passes call.

A way whose operator differs is closed, with the reason: an argument in another place is no error of
torch's, but other numbers. What is compared is what is passed and read; arguments that came later
and have defaults do not matter.
"""

import inspect

import torch

from ..integrations.fa3 import parameters_of

#: Arguments of torch's forward passes by place, with their types, and by name; and the tensors that
#: are returned.
OPERATORS = {
    "cudnn": ("_scaled_dot_product_cudnn_attention",
              ("query Tensor", "key Tensor", "value Tensor", "attn_bias Optional[Tensor]",
               "compute_log_sumexp bool", "dropout_p float", "is_causal bool",
               "return_debug_mask bool"), ("scale",), 2),
    "flash": ("_flash_attention_forward",
              ("query Tensor", "key Tensor", "value Tensor", "cum_seq_q Optional[Tensor]",
               "cum_seq_k Optional[Tensor]", "max_q int", "max_k int", "dropout_p float",
               "is_causal bool", "return_debug_mask bool"),
              ("scale", "window_size_left", "window_size_right"), 2),
}


def _spelled(argument):
    """`query Tensor`; symbolic integers are integers."""
    return f"{argument.name} {str(argument.type).replace('SymInt', 'int')}"


def difference(schema, places, names, results):
    """How a schema differs from what is called; "" if it does not."""
    arguments = list(schema.arguments)
    found = [_spelled(each) for each in arguments if not each.kwarg_only]
    if tuple(found[:len(places)]) != places:
        return f"takes ({', '.join(found)}), not ({', '.join(places)})"
    known = {each.name for each in arguments}
    absent = [name for name in names if name not in known]
    if absent:
        return f"has no argument {', '.join(absent)}"
    passed = {place.partition(" ")[0] for place in places} | set(names)
    more = [each.name for each in arguments
            if each.name not in passed and not each.has_default_value()]
    if more:
        return f"also needs {', '.join(more)}"
    tensors = [str(each.type) == "Tensor" for each in schema.returns[:results]]
    if len(tensors) < results or not all(tensors):
        return "returns no two tensors first"
    return ""


def closed_ways():
    """Forward passes that this torch has not as they are called, and why."""
    closed = {}
    for way, (name, *called) in OPERATORS.items():
        try:
            why = difference(getattr(torch.ops.aten, name).default._schema, *called)
        except (AttributeError, RuntimeError):
            closed[way] = f"this torch has no aten::{name}"
            continue
        if why:
            closed[way] = f"aten::{name} of torch {torch.__version__} {why}"
    return closed


def flash_counts_splits():
    """Whether flash can be told into how many pieces it may cut keys: it has `num_splits` from torch
    2.12 on, which it heeds for packed sequences."""
    try:
        schema = torch.ops.aten._flash_attention_forward.default._schema
    except (AttributeError, RuntimeError):
        return False
    return "num_splits" in {each.name for each in schema.arguments}


#: Parameters of FlashAttention-3's _flash_attn_forward that are passed.
FA3 = ("q", "k", "v", "softmax_scale", "causal", "window_size_left", "window_size_right",
       "num_splits", "sm_margin")


def fa3_forward():
    """FlashAttention-3's forward pass, and why there is none: one of the two is None or ""."""
    try:
        from flash_attn_interface import _flash_attn_forward as function
    except ImportError as error:
        return None, f"FlashAttention-3 (flash_attn_interface) cannot be imported here: {error}"
    known = parameters_of(function)
    absent = [name for name in FA3 if name not in known]
    needed = [name for name, each in known.items()
              if name not in FA3 and each.default is inspect.Parameter.empty]
    if absent or needed:
        return None, ("this FlashAttention-3 has another _flash_attn_forward: " + "; ".join(
            f"{what} {', '.join(names)}" for what, names in
            (("without", absent), ("which needs", needed)) if names))
    return function, ""
