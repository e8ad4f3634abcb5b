"""What a call costs the host, part by part, in microseconds: of the parts that run anywhere, and with
a Hopper GPU of whole calls.

    python3 python/tests/host_cost.py
"""

import ctypes
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch  # noqa: E402

from stagger import _lib  # noqa: E402
from stagger.torch import recipe as recipes  # noqa: E402


def cost_us(function, calls=2000, rounds=7):
    """The least of a few rounds' means."""
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        best = min(best, time.perf_counter() - begin)
    return 1e6 * best / calls


class Image:
    """As much of a plan on a device as a recipe looks at."""

    class plan:
        handle, workspace_bytes = ctypes.c_void_p(), 1 << 20


def parts():
    """Key, struct and ctypes call, on tensors of the CPU."""
    q, k, v, out, d_out = (torch.zeros(2, 64, 4, 64, dtype=torch.bfloat16) for _ in range(5))
    lse = torch.zeros(2, 4, 64)
    six, nine = (d_out, q, k, v, out, lse), (q, k, v, out, d_out, q, k, v, lse)
    arguments = "causal", "auto", 0.125, "bshd", -1, False, (False, None)
    known = {recipes.key_of(six, *arguments): 1}
    strides = [(16384, 256, 64)] * 9
    kept = recipes.Recipe(Image, [], strides, 0.125, ctypes.POINTER(_lib.Status)())
    nothing = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(
        ("abs", ctypes.CDLL(None)))
    call = kept.filled(nine, 256, 256, 0, 1)
    yield "key of a call, and its recipe", lambda: known[recipes.key_of(six, *arguments)]
    yield "struct of a call", lambda: kept.filled(nine, 256, 256, 0, 1)
    yield "ctypes call of a function that does nothing", lambda: nothing(kept.handle,
                                                                         ctypes.byref(call))


def whole():
    """Whole calls, until they are enqueued."""
    import stagger
    q, k, v, d_out = (torch.randn(1, 256, 2, 64, device="cuda", dtype=torch.bfloat16)
                      for _ in range(4))
    out, lse = stagger.attention(q, k, v, return_lse=True)
    leaves = [each.requires_grad_() for each in (q, k, v)]
    kept = stagger.attention(*leaves)
    from stagger.torch import operators, runtime
    from stagger.torch.forward import forward
    device = runtime.device(0)
    plain = [each.detach() for each in (d_out, q, k, v, out, lse)]
    words = "causal", "auto", 0.125, "bshd", -1, False
    stagger.attention_backward(*plain)
    recipe = next(iter(device.recipes.values()))
    stream = torch.cuda.current_stream().cuda_stream

    def space():
        torch.cuda.caching_allocator_delete(
            torch.cuda.caching_allocator_alloc(recipe.workspace_bytes, 0, stream))

    q, k, v, o = plain[1:5]
    nine = (q, k, v, o, plain[0], *(torch.empty_like(each) for each in (q, k, v)), plain[5])
    memory = torch.empty(recipe.workspace_bytes, dtype=torch.uint8, device="cuda")
    call = recipe.filled(nine, memory.data_ptr(), recipe.image.address(stream), stream, 1)
    enqueue = _lib.backward_of_addresses()
    yield "attention, with a graph", lambda: stagger.attention(*leaves)
    yield "  torch's own forward pass", lambda: forward(*plain[1:4], "causal", 0.125, "cudnn")
    yield "backward, by autograd", lambda: torch.autograd.grad(kept, leaves, plain[0],
                                                               retain_graph=True)
    yield "attention_backward", lambda: stagger.attention_backward(*plain)
    yield "  of it the operator", lambda: operators.backward_operator(*plain, *words)
    yield "  of it what is behind the dispatcher", lambda: operators._backward_cuda(*plain, *words)
    yield "  of it stagger_backward", lambda: enqueue(recipe.handle, ctypes.byref(call))
    yield "  of it three gradients", lambda: operators._gradients_like(*plain[1:4])
    yield "  of it the workspace", space
    yield "  of it what is beside NCCL and locked", lambda: runtime.surroundings(-1)
    yield "  of it the look for a stopped call", device.raise_if_stopped


def main():
    for name, function in parts():
        print(f"{cost_us(function):8.2f} us  {name}")
    if torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9:
        for name, function in whole():
            function()
            torch.cuda.synchronize()
            print(f"{cost_us(function, 200, 5):8.2f} us  {name}")
            torch.cuda.synchronize()


if __name__ == "__main__":
    main()
