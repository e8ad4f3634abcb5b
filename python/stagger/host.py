"""The backward pass of numpy arrays on CPU threads, by the library's executor, and where it is asked
for of arrays on a GPU."""

import ctypes

import numpy as np

from . import _lib, dlpack, errors, locks, settings
from .masks import mask as as_mask
from .plans import expect_counts, expect_plan_of, expect_words, plans

SMS = 16  #: that tables for threads are for
LAYOUTS = {"bshd": (0, 1, 2), "bhsd": (0, 2, 1), "sbhd": (1, 0, 2)}  # axes of batch, row, head


def tensor(array, axes):
    """An array as the library takes it; axes are those of batch, row and head."""
    strides = [array.strides[axis] // array.itemsize for axis in axes]
    return _lib.Tensor(array.ctypes.data, (ctypes.c_int64 * 3)(*strides))


def _as_float32(name, array):
    """An array without gaps. Raises ValueError for what has no real numbers."""
    if array is None:
        raise ValueError(f"{name} is None; it is an array of float32")
    array = np.asarray(array)
    if array.dtype.kind not in "fiu":
        kind = "Python objects" if array.dtype.kind == "O" else array.dtype
        raise ValueError(f"{name} is of {kind}; it is of float32")
    return np.ascontiguousarray(array, np.float32)


def plan_of(*, mask, schedule, sms=SMS, tile_q=0, tile_kv=0, invariant=False, **arguments):
    """The plan of a problem (arguments of Plan), from the cache if it is there. Raises what Plan does."""
    expect_words(schedule=schedule)
    arguments.update(mask=as_mask(mask).text, schedule=schedule, invariant=bool(invariant),
                     **expect_counts(2**31, sms=sms, tile_q=tile_q, tile_kv=tile_kv))
    key = ("host", *sorted(arguments.items()), locks.current())
    return plans.get(key, lambda: locks.plan(**arguments))


def sizes_of(shapes, layout):
    """The sizes of a problem, as a plan takes them, of the shapes of q, k, v, out, d_out and lse.
    Raises ValueError for shapes that do not fit each other."""
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ValueError(f"layout is bshd, bhsd or sbhd, not {layout!r}")
    axes = (*LAYOUTS[layout], 3)
    sizes = {}
    for name in ("q", "k", "v", "out", "d_out"):
        if len(shapes[name]) != 4:
            raise ValueError(f"{name} has {len(shapes[name])} dimensions; it has 4 ({layout})")
        sizes[name] = tuple(shapes[name][axis] for axis in axes)
    batch, seq_q, heads, dim = sizes["q"]
    _, seq_kv, heads_kv, _ = sizes["k"]
    for name, wanted in (("k", (batch, seq_kv, heads_kv, dim)), ("v", sizes["k"]),
                         ("out", sizes["q"]), ("d_out", sizes["q"])):
        if sizes[name] != wanted:
            raise ValueError(f"{name} is (batch, row, head, dim) {sizes[name]}, not {wanted}")
    if shapes["lse"] != (batch, heads, seq_q):
        raise ValueError(f"lse is {shapes['lse']}, not (batch, head, row) {(batch, heads, seq_q)}")
    return {"batch": batch, "seq_q": seq_q, "heads": heads, "seq_kv": seq_kv, "heads_kv": heads_kv,
            "head_dim": dim}


def backward(q, k, v, out, lse, d_out, *, mask=None, schedule=None, sms=None, tile_q=None, tile_kv=None,
             layout="bshd", threads=0, arithmetic="fp32", invariant=None, timeout_ms=0, plan=None,
             stream=None):
    """dq, dk, dv of attention, in the order of a table.

    q, out, d_out: float32 (B, Sq, Hq, D) by layout; k, v: (B, Skv, Hkv, D), Hkv divides Hq.
    lse: float32 (B, Hq, Sq), natural logarithm of the sum of exp(q k / sqrt(D)); either infinity
    for a query that sees nothing. `arithmetic` "bf16" or "fp16" rounds P and dS as tensor cores
    need them, and asks for inputs that are exact in it. `threads` play the table, 0: as many as there are.
    timeout_ms: the longest wait for a turn, 0: STAGGER_TIMEOUT_MS or a minute.

    The table is that of `plan`, a stagger.Plan of these sizes, or is made: by `schedule`, None: "spt",
    for `mask`, None: "causal", in tiles of `tile_q` and `tile_kv` tokens, 0: chosen, for `sms` SMs, 0: 16;
    `invariant`: every head in one order, whatever the batch.

    Returns float32 arrays of the shapes of q, k and v, without gaps. Raises ValueError for arrays
    that do not fit each other, UsageError for a plan beside what it was made of, and errors of the
    library (UsageError, InputError, Unsupported).

    Arrays that another library has on a GPU (`__dlpack__`; CuPy, JAX) are bf16 or fp16, lse float32,
    of any strides that the kernel takes (AlignmentError names others). The kernel is enqueued on
    `stream`, a cudaStream_t, None: the default stream; `sms` 0: all; threads and arithmetic are none
    of its. Returns arrays for `from_dlpack`, in q's dtype. Raises NoDevice where it does not run, and
    Timeout if a call before was stopped.
    """
    named = {"q": q, "k": k, "v": v, "out": out, "d_out": d_out, "lse": lse}
    given = {"mask": mask, "schedule": schedule, "sms": sms, "tile_q": tile_q, "tile_kv": tile_kv,
             "invariant": invariant}
    given = {name: each for name, each in given.items() if each is not None}
    if plan is not None and given:
        raise errors.UsageError(f"plan has its own {', '.join(given)}: leave out what it was made of")
    problem = {"mask": "causal", "schedule": "spt", **given}
    sms = problem.pop("sms", 0)
    if dlpack.is_on_gpu(q):
        if (threads, arithmetic) != (0, "fp32"):
            raise errors.UsageError("threads and arithmetic are of arrays on the CPU")
        from . import gpu
        return gpu.backward(named, layout=layout, stream=stream, timeout_ms=timeout_ms, plan=plan,
                            sms=sms, **problem)
    if stream is not None:
        raise errors.UsageError("stream is of arrays on a GPU")
    if not isinstance(arithmetic, str) or arithmetic not in _lib.DTYPES:
        raise errors.UsageError(f"arithmetic is {', '.join(_lib.DTYPES)}, not {arithmetic!r}")
    threads = expect_counts(2**31, threads=threads)["threads"]
    arrays = {name: _as_float32(name, each) for name, each in named.items()}
    sizes = sizes_of({name: array.shape for name, array in arrays.items()}, layout)
    axes = LAYOUTS[layout]
    if plan is None:
        plan = plan_of(sms=sms or SMS, **problem, **sizes)
    expect_plan_of(plan, sizes)
    lse = arrays.pop("lse")
    gradients = [np.empty_like(arrays[name]) for name in ("q", "k", "v")]
    call = _lib.Call(**{name: tensor(array, axes) for name, array in arrays.items()},
                     **{name: tensor(array, axes)
                        for name, array in zip(("dq", "dk", "dv"), gradients)},
                     lse=tensor(lse, (0, 2, 1)), timeout_ms=settings.longest_wait(timeout_ms))
    _lib.check(_lib.library().stagger_backward_host(
        plan.handle, ctypes.byref(call), threads, _lib.DTYPES[arithmetic]))
    return tuple(gradients)
