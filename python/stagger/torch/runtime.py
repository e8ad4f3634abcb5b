"""What is kept of a device: the plans that are on it, and where stopped calls say so."""

import collections
import ctypes
import itertools
import threading

import torch

from .. import _lib, errors
from ..plans import Plan, plans

DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16"}
#: SMs that are left to NCCL where a table needs all of its CTAs at once.
NCCL_SMS = 16


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
        self._streams = {stream.cuda_stream}
        self.pinned = False  # a graph has its address

    def address(self, stream):
        """The image, for a kernel on this stream."""
        if stream.cuda_stream not in self._streams:
            if torch.cuda.is_current_stream_capturing():
                self.pinned = True
            else:
                self.memory.record_stream(stream)
                self._streams.add(stream.cuda_stream)
        return self.memory.data_ptr()


class Device:
    """One GPU: its SMs, images of plans, and its status, which stopped calls write."""

    def __init__(self, index):
        self.index = index
        properties = torch.cuda.get_device_properties(index)
        self.sms, self.name = properties.multi_processor_count, properties.name
        self.capability = (properties.major, properties.minor)
        self._images = collections.OrderedDict()
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._calls = collections.OrderedDict()
        self.status = ctypes.POINTER(_lib.Status)()
        _lib.check(_lib.library().stagger_status_new(ctypes.byref(self.status)))

    def image(self, key, make):
        """The plan of a key on this device: built and uploaded if it is not there."""
        with self._lock:
            image = self._images.get(key)
            if image is not None:
                self._images.move_to_end(key)
                return image
        image = OnDevice(plans.get(key, make), torch.device("cuda", self.index))
        with self._lock:
            image = self._images.setdefault(key, image)
            for old in [each for each, kept in self._images.items() if not kept.pinned][:-128]:
                del self._images[old]
        return image

    def note(self, what):
        """A number for a call, by which a stopped one is known later."""
        number = next(self._ids)
        self._calls[number] = what
        while len(self._calls) > 64:
            self._calls.popitem(last=False)
        return number

    def raise_if_stopped(self):
        """Raises Timeout if a call was stopped since the last look: one load from host memory."""
        status = self.status.contents
        if status.code == 0:
            return
        number, count = status.call_id, status.count
        what = self._calls.get(number, "a call long ago")
        status.count = status.code = 0
        raise errors.Timeout(
            f"device {self.index}: call {number} ({what}) was stopped, as a wait for its turn was "
            f"too long; {count} calls since have gradients of NaN. Plans are verified before they "
            "run: another kernel held SMs for that long, or the hardware is at fault")


_devices = {}
_lock = threading.Lock()


def device(index):
    """The Device of an index."""
    known = _devices.get(index)
    if known is None:
        with _lock:
            known = _devices.setdefault(index, None) or Device(index)
            _devices[index] = known
    return known


def check(index=None, sync=False):
    """Raises Timeout if a call on the device was stopped, whose gradients are NaN; `sync` waits
    for the device first, so that no call is still under way."""
    index = torch.cuda.current_device() if index is None else index
    if sync:
        torch.cuda.synchronize(index)
    device(index).raise_if_stopped()


def beside_nccl():
    """Whether other kernels of this process may hold SMs until a peer comes: then tables that need
    all CTAs at once can deadlock with them."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return False
    return torch.distributed.get_world_size() > 1 and "nccl" in torch.distributed.get_backend()


def plan_key(shape, mask, schedule, sm_margin, invariant, sms):
    """What a plan depends on; shape is (batch, seq_q, heads, seq_kv, heads_kv, dim, dtype)."""
    nccl = beside_nccl() if sm_margin < 0 else False
    margin = max(sm_margin, 0)
    return (*shape, mask, schedule, sms - margin, invariant, nccl)


def make_plan(key):
    """The plan of a key."""
    batch, seq_q, heads, seq_kv, heads_kv, dim, dtype, mask, schedule, sms, invariant, nccl = key
    arguments = dict(mask=mask, schedule=schedule, seq_q=seq_q, seq_kv=seq_kv, batch=batch,
                     heads=heads, heads_kv=heads_kv, head_dim=dim, dtype=DTYPES[dtype],
                     invariant=invariant)
    if nccl:
        try:
            return Plan(**arguments, sms=sms, elastic=True)
        except (errors.Unsupported, errors.ResidencyError):
            return Plan(**arguments, sms=max(sms - NCCL_SMS, 1))
    plan = Plan(**arguments, sms=sms)
    if plan.device_bytes == 0:
        raise errors.Unsupported(f"the kernel does not run {plan!r}")
    return plan
