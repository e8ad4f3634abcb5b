"""Calls whose turn does not come, or not soon: every wait ends."""

import ctypes
import json
import os
import time

import torch

import stagger
from stagger import _lib
from stagger.torch import runtime

from support import (bits_of, check, errors_of, exact, made_call, raw_call, report, same, tensors,
                     untouched, within)


def hanging_plan():
    """A plan of one head and 512 tokens whose last task waits for a turn that never comes."""
    problem = {"seq_q": 512, "heads": 1, "head_dim": 64, "dtype": "bf16"}
    document = stagger.Plan("full", "spt", **problem, tile_q=64).json()
    document["lanes"][-1][-1][3] = 99
    return stagger.Plan("full", **problem, verify=False, table=json.dumps(document))


@check
def stopped():
    """A table that hangs is stopped by its deadline: NaN, a note, and the next call is right."""
    q, k, v, d_out = tensors(1, 512, 1, 64)
    out, lse = stagger.attention(q, k, v, mask="full", return_lse=True)
    sound = stagger.Plan("full", "spt", seq_q=512, heads=1, head_dim=64, dtype="bf16", tile_q=64)
    hanging = hanging_plan()
    space = torch.zeros(hanging.workspace_bytes + 512, dtype=torch.uint8, device="cuda")
    device = runtime.device(0)
    case = (q, k, v, d_out, out, lse)
    grads, whole = raw_call(hanging, case, space, timeout_ms=50, status=device.status,
                            call_id=device.note("the one that hangs"))
    nan = all(bool(torch.isnan(each).all()) for each in grads)
    try:
        stagger.check(sync=True)
        told = ""
    except stagger.Timeout as error:
        told = str(error)
    again, _ = raw_call(sound, case, space)
    fine = max(errors_of(again, exact(q, k, v, d_out, "full"))) < 7 * 2.0**-8
    stagger.check(sync=True)
    report("stopped", nan and whole and fine and "the one that hangs" in told, told=told[:60])


@within(60)
def deadline():
    """A call of attention whose turn never comes: NaN everywhere, the next call raises Timeout, the
    one after it is right. The wait is STAGGER_TIMEOUT_MS."""
    q, k, v, d_out = tensors(1, 512, 1, 64)
    out, lse = stagger.attention(q, k, v, mask="full", return_lse=True)
    hanging = hanging_plan()
    os.environ["STAGGER_TIMEOUT_MS"] = "300"
    stock = runtime.make_plan
    try:
        runtime.make_plan = lambda key, machine=None: hanging
        begin = time.perf_counter()
        grads = stagger.attention_backward(d_out, q, k, v, out, lse, mask="full", schedule="shift")
        torch.cuda.synchronize()
        took = time.perf_counter() - begin
    finally:
        runtime.make_plan = stock
        del os.environ["STAGGER_TIMEOUT_MS"]
    nan = all(bool(torch.isnan(each).all()) for each in grads)

    def call():
        return stagger.attention_backward(d_out, q, k, v, out, lse, mask="full", schedule="spt")

    try:
        call()
        told = "nothing"
    except stagger.Timeout as error:
        told = str(error)
    fine = max(errors_of(call(), exact(q, k, v, d_out, "full"))) < 7 * 2.0**-8
    report("deadline", nan and 0.2 < took < 20 and "was stopped" in told and fine,
           seconds=round(took, 2), told=told[:60])


def holding(ctas, ms):
    """Starts a call of ours on a stream of its own, whose CTAs wait for turns that never come: it
    holds as many SMs until its deadline. Returns what must live as long."""
    heads, arguments = -(-ctas // 32), {"seq_q": 4096, "head_dim": 128, "dtype": "bf16"}
    document = stagger.Plan("full", "spt", heads=heads, tile_q=64, sms=ctas, **arguments).json()
    for lane in document["lanes"]:
        lane[0][3] = 9999
    plan = stagger.Plan("full", heads=heads, verify=False, table=json.dumps(document), sms=ctas,
                        **arguments)
    q, k, v, d_out = tensors(1, 4096, heads, 128)
    stream = torch.cuda.Stream()
    space = torch.zeros(plan.workspace_bytes + 512, dtype=torch.uint8, device="cuda")
    case = q, k, v, d_out, d_out, torch.zeros(1, heads, 4096, device="cuda")
    made = made_call(plan, case, space, timeout_ms=ms, stream=stream.cuda_stream)
    torch.cuda.synchronize()
    _lib.check(_lib.library().stagger_backward(plan.handle, ctypes.byref(made[0])))
    time.sleep(0.1)
    return plan, made, space, stream, case


@within(120)
def held():
    """A kernel holds SMs for two seconds: no call hangs; what ends is right, or NaN with an error.

    A grid that starts as there is room goes by it; one that must all be there waits for it."""
    q, k, v, d_out = tensors(2, 2048, 8, 128)
    out, lse = stagger.attention(q, k, v, return_lse=True)
    case, device = (q, k, v, d_out, out, lse), runtime.device(0)
    for schedule, elastic in (("spt", True), ("symmetric-shift", False)):
        plan = stagger.Plan("causal", schedule, seq_q=2048, batch=2, heads=8, head_dim=128,
                            dtype="bf16", elastic=elastic, sms=device.sms)
        space = torch.zeros(plan.workspace_bytes + 512, dtype=torch.uint8, device="cuda")
        wanted = bits_of(raw_call(plan, case, space)[0])
        for ctas in (32, device.sms):
            side = torch.cuda.Stream()
            call, grads, canaries, image = made_call(
                plan, case, space, timeout_ms=200, status=device.status, stream=side.cuda_stream,
                call_id=device.note("the one beside"))
            kept = holding(ctas, 2000)
            begin = time.perf_counter()
            _lib.check(_lib.library().stagger_backward(plan.handle, ctypes.byref(call)))
            side.synchronize()
            took = time.perf_counter() - begin
            torch.cuda.synchronize()
            nan = all(bool(torch.isnan(each).all()) for each in grads)
            try:
                stagger.check(sync=True)
                told = ""
            except stagger.Timeout as error:
                told = str(error)
            right = same(bits_of(grads), wanted)
            again = bits_of(raw_call(plan, case, space)[0])
            by_itself = took < 1 or not (elastic and ctas == 32)
            ended = right if not told else nan and "the one beside" in told
            report("held", ended and by_itself and untouched(canaries) and took < 20 and
                   same(again, wanted), schedule=schedule, held_sms=ctas, seconds=round(took, 2),
                   ended="by its deadline" if told else "right")
            del kept, image


@within(60)
def wait_of_a_call():
    """timeout_ms of one call is its own: it ends a wait sooner than the environment's."""
    q, k, v, d_out = tensors(1, 512, 1, 64)
    out, lse = stagger.attention(q, k, v, mask="full", return_lse=True)
    hanging = hanging_plan()
    stock, took = runtime.make_plan, {}
    os.environ["STAGGER_TIMEOUT_MS"] = "20000"
    try:
        runtime.make_plan = lambda key, machine=None: hanging
        for wait in (100, 1000):
            begin = time.perf_counter()
            leaves = [x.detach().requires_grad_() for x in (q, k, v)]
            by_autograd = stagger.attention(*leaves, mask="full", schedule="shift", timeout_ms=wait)
            grads = torch.autograd.grad(by_autograd, leaves, d_out)
            torch.cuda.synchronize()
            took[wait] = time.perf_counter() - begin
            try:
                stagger.check(sync=True)
                told = ""
            except stagger.Timeout as error:
                told = str(error)
            nan = all(bool(torch.isnan(each).all()) for each in grads)
            report("wait_of_a_call", nan and "was stopped" in told and
                   wait / 1e3 <= took[wait] < wait / 1e3 + 5, timeout_ms=wait,
                   seconds=round(took[wait], 2), told=told[:60])
    finally:
        runtime.make_plan = stock
        del os.environ["STAGGER_TIMEOUT_MS"]
    for wait in (-1, 2**32, 1.5, "9"):
        try:
            stagger.attention_backward(d_out, q, k, v, out, lse, mask="full", timeout_ms=wait)
            said = "nothing"
        except stagger.UsageError as error:
            said = str(error)
        report("wait_of_a_call", "no wait is forever" in said, timeout_ms=wait, said=said[:50])
