"""What is kept of a device: the plans that are on it, and where stopped calls say so."""

import ctypes
import functools
import os
import threading

import torch

from .. import _lib, errors, locks, machines, mask_names, once, settings
from ..plans import expect_room, plans
from ..stops import Stops, where

DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16"}
#: Bytes that the address of a tensor is a multiple of.
ALIGNMENT = 16
#: Images and recipes that are kept of a device, beside images that graphs hold.
MOST_IMAGES, MOST_RECIPES = 128, 1024


class OnDevice:
    """A plan's image in device memory. The upload is waited for, once a shape, so that any stream
    may use it; its memory is not used again before those have gone past its last use."""

    def __init__(self, plan, device):
        if torch.cuda.is_current_stream_capturing():
            raise errors.CaptureError(
                "this shape has no plan on the device yet, and a plan cannot be uploaded while a "
                "stream is captured: run one step before, or call stagger.prepare(q, k, ...)")
        self.plan = plan
        self.memory = torch.empty(max(plan.device_bytes, 1), dtype=torch.uint8, device=device)
        stream = torch.cuda.current_stream(device)
        _lib.check(_lib.library().stagger_plan_upload(
            plan.handle, self.memory.data_ptr(), self.memory.numel(), stream.cuda_stream))
        stream.synchronize()
        self._address = self.memory.data_ptr()
        self._streams = {stream.cuda_stream}
        self.pinned = False  # a graph has its address
        self.used = 0  # the number of the last call

    def address(self, stream):
        """The image, for a kernel on this stream (a cudaStream_t), which is the current one."""
        if stream not in self._streams:
            if torch.cuda.is_current_stream_capturing():
                self.pinned = True
            else:
                self.memory.record_stream(torch.cuda.current_stream(self.memory.device))
                self._streams.add(stream)
        return self._address


#: Where the forward pass was whose backward pass runs on this thread just now, as `place`: autograd's
#: threads know nothing of the program.
forward_pass = threading.local()


def _place():
    """Where in the program a call comes from."""
    return getattr(forward_pass, "place", None) or where()


class Device(Stops):
    """One GPU: its SMs, images of plans, recipes of calls, and where stopped ones say so."""

    def __init__(self, index):
        super().__init__(index)
        properties = torch.cuda.get_device_properties(index)
        self.sms, self.name = properties.multi_processor_count, properties.name
        self.capability = (properties.major, properties.minor)
        self.recipes = {}
        self._images = {}
        self._lock = threading.Lock()
        self._backward = _lib.backward_of_addresses()

    @functools.cached_property
    def profile(self):
        """By which plans for this device are ranked."""
        return machines.ranking_profile(self.name)

    def image(self, key, make):
        """The plan of a key on this device: built and uploaded if it is not there."""
        with self._lock:
            image = self._images.get(key)
        if image is None:
            plan = plans.get(key, make)
            expect_room(plan, self.sms)
            image = OnDevice(plan, torch.device("cuda", self.index))
            image.used = next(self._ids)
            with self._lock:
                image = self._images.setdefault(key, image)
                self._shed()
        return image

    def _shed(self):
        """Drops the images beyond MOST_IMAGES that were used longest ago, and recipes with them."""
        loose = [key for key, image in self._images.items() if not image.pinned]
        loose.sort(key=lambda key: self._images[key].used)
        dropped = {self._images.pop(key) for key in loose[:-MOST_IMAGES]}
        if dropped:
            self.recipes = {key: recipe for key, recipe in self.recipes.items()
                            if recipe.image not in dropped}

    def keep(self, key, recipe):
        """Keeps a recipe, and returns it."""
        with self._lock:
            if len(self.recipes) >= MOST_RECIPES:
                self.recipes = {}
            self.recipes[key] = recipe
        return recipe

    def enqueue(self, recipe, tensors):
        """Enqueues a call on the current stream of this device, which is the current device."""
        image = recipe.image
        number = image.used = self.note(image.plan, _place())
        stream = torch._C._cuda_getCurrentRawStream(self.index)
        # Not torch.empty: that would be filled where uninitialised memory is.
        workspace = torch.cuda.caching_allocator_alloc(recipe.workspace_bytes, self.index, stream)
        try:
            call = recipe.filled(tensors, workspace, image.address(stream), stream, number)
            _lib.check(self._backward(recipe.handle, ctypes.byref(call)))
        finally:
            torch.cuda.caching_allocator_delete(workspace)  # in the order of the same stream


_devices = {}
_lock = threading.Lock()


#: What a parent had on its devices, in a child: kept, since to free it would call CUDA.
_left_behind = []


def _in_child():
    """After a fork: the parent's CUDA is none of the child's."""
    global _devices, _lock
    _lock = threading.Lock()
    if _devices:
        _left_behind.append(_devices)
        _devices = {}


os.register_at_fork(after_in_child=_in_child)


def expect_own_devices():
    """Raises DeviceError in a child of a process that had used a GPU."""
    if _left_behind:
        raise errors.DeviceError(
            "this process was forked from one that had used a GPU, and CUDA does not work in such a "
            "child: start it by multiprocessing's \"spawn\" or \"forkserver\" method")


def device(index):
    """The Device of an index."""
    known = _devices.get(index)
    if known is None:
        expect_own_devices()
        with _lock:
            known = _devices.get(index) or Device(index)
            _devices[index] = known
    return known


#: Marks what torch.compile calls while it traces, and takes the result of for good.
constant = getattr(getattr(torch, "compiler", None), "assume_constant_result", lambda made: made)


@constant
def refusal(index):
    """Why the kernel does not run on a device; "" if it does."""
    name, capability = device(index).name, device(index).capability
    if capability[0] == 9:
        return ""
    return f"{name} has compute capability {'.'.join(map(str, capability))}; the kernel is for 9.0"


def expect_gpu():
    """Raises NoDevice, with the reason, where torch has no GPU of this process's own."""
    expect_own_devices()
    if not torch.cuda.is_available():
        raise errors.NoDevice(_lib.info()["why_not"] or "torch has no GPU")


def check(index=None, sync=False):
    """Raises Timeout if a call on the device was stopped, whose gradients are NaN; `sync` waits
    for the device first, so that no call is still under way."""
    expect_gpu()
    index = torch.cuda.current_device() if index is None else index
    if sync:
        torch.cuda.synchronize(index)
    device(index).raise_if_stopped()


_nccl = (None, False)  # a default group, and whether it is NCCL's with peers


def beside_nccl():
    """Whether other kernels of this process may hold SMs until a peer comes: then tables that need
    all CTAs at once can deadlock with them."""
    global _nccl
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return False
    group = distributed.group.WORLD
    if _nccl[0] is not group:
        _nccl = group, distributed.get_world_size() > 1 and "nccl" in distributed.get_backend()
    return _nccl[1]


def surroundings(sm_margin):
    """What a plan depends on beside a call: whether NCCL is there, if the SMs that it needs are to
    be found, and the lock."""
    return sm_margin < 0 and beside_nccl(), locks.current()


def plan_key(shape, mask, schedule, sm_margin, invariant, sms):
    """What a plan depends on; shape is (batch, seq_q, heads, seq_kv, heads_kv, dim, dtype). Raises
    UsageError for a margin that leaves no SM."""
    if sm_margin >= sms:
        raise errors.UsageError(f"sm_margin {sm_margin} leaves none of {sms} SMs")
    return (*shape, mask, schedule, sms - max(sm_margin, 0), invariant, *surroundings(sm_margin))


def _plan_beside_nccl(arguments, sms):
    """A plan that starts as there is room, or else leaves SMs to collectives, with a warning."""
    try:
        return locks.plan(**arguments, sms=sms, elastic=True)
    except (errors.Unsupported, errors.ResidencyError):
        plan = locks.plan(**arguments, sms=max(sms - settings.nccl_sms(), 1))
    once.warn(f"beside NCCL {settings.nccl_sms()} SMs are left to collectives, since {plan.schedule} needs "
              "all of its CTAs at once: sm_margin says another number, schedule=\"spt\" needs one CTA "
              "alone and leaves none")
    return plan


def make_plan(key, machine=None):
    """The plan of a key; `machine` is the device's own profile, if it has one."""
    (batch, seq_q, heads, seq_kv, heads_kv, dim, dtype, mask, schedule, sms, invariant, nccl,
     _) = key
    arguments = dict(mask=mask_names.text_of(mask), schedule=schedule, seq_q=seq_q, seq_kv=seq_kv, batch=batch,
                     heads=heads, heads_kv=heads_kv, head_dim=dim, dtype=DTYPES[dtype],
                     invariant=invariant, machine=machine)
    plan = _plan_beside_nccl(arguments, sms) if nccl else locks.plan(**arguments, sms=sms)
    if plan.device_bytes == 0:
        raise errors.Unsupported(f"the kernel does not run {plan!r}")
    return plan
