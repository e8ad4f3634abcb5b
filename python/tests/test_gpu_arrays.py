"""Arrays that another library has on a GPU, by DLPack: on a driver and a kernel of the tests', whose
device memory is the host's."""

import ctypes
import gc
import types
import unittest
from unittest import mock

import numpy as np

import stagger
from stagger import _lib, dlpack, driver, gpu, numpy_ref


class Driver:
    """CUDA's driver as far as it is asked: memory of the host's, and a log of the rest."""

    def __init__(self):
        self.memory, self.log = {}, []

    def call(self, name, *arguments):
        if name in ("cuMemAlloc_v2", "cuMemAllocAsync"):
            buffer = ctypes.create_string_buffer(arguments[1] + 256)
            address = -(-ctypes.addressof(buffer) // 256) * 256
            arguments[0]._obj.value = address
            self.memory[address] = buffer
        elif name in ("cuMemFree_v2", "cuMemFreeAsync"):
            del self.memory[arguments[0]]
        elif name == "cuDeviceGetName":
            arguments[0].value = b"NVIDIA H200"
        if not name.startswith("cuCtx"):
            self.log.append((name, *(each for each in arguments if isinstance(each, int))))


def view(tensor, shape, dtype):
    """A tensor of a call (batch, row, head, dim) as numpy has it."""
    strides = [stride * dtype().itemsize for stride in (*tensor.stride, 1)]
    size = sum((n - 1) * stride for n, stride in zip(shape, strides)) + dtype().itemsize
    return np.ndarray(shape, dtype, (ctypes.c_char * size).from_address(tensor.data), 0, strides)


class Library:
    """libstagger, with a kernel in double precision for causal masks in fp16."""

    def __init__(self, real, shapes):
        self.real, self.shapes, self.calls, self.status = real, shapes, [], _lib.Status()

    def __getattr__(self, name):
        return getattr(self.real, name)

    def stagger_status_new(self, status):
        status._obj.contents = self.status
        return 0

    def stagger_plan_upload(self, plan, memory, size, stream):
        self.calls.append(("upload", stream))
        return 0

    def stagger_backward(self, plan, call):
        call = call._obj
        self.calls.append(("backward", call.stream, call.timeout_ms, call.call_id))
        q, d_out, dq, k, v, dk, dv = (
            view(getattr(call, name), self.shapes[of], np.float16) for name, of in
            zip(("q", "d_out", "dq", "k", "v", "dk", "dv"), "qqqkkkk"))
        lse = view(call.lse, (*self.shapes["q"][:3], 1), np.float32)[..., 0]
        np.testing.assert_allclose(lse.transpose(0, 2, 1), numpy_ref.forward(q, k, v, "causal")[1],
                                   rtol=1e-5)
        for to, found in zip((dq, dk, dv), numpy_ref.gradients(q, k, v, d_out, "causal")):
            to[...] = found
        return 0


class OnGpu:
    """A numpy array that says that it is on a GPU."""

    def __init__(self, array, device=0):
        self.array, self.device, self.streams = array, device, []

    def __dlpack_device__(self):
        return dlpack.CUDA, self.device

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.array.__dlpack__()


class GpuArrays(unittest.TestCase):
    SHAPES = {"q": (2, 65, 4, 64), "k": (2, 65, 2, 64)}

    def setUp(self):
        rng = np.random.default_rng(3)
        self.q, self.k, self.v, self.d_out = (
            rng.standard_normal(self.SHAPES[name]).astype(np.float16) for name in "qkkq")
        out, lse = numpy_ref.forward(self.q, self.k, self.v, "causal")
        self.out, self.lse = out.astype(np.float16), lse.astype(np.float32)
        self.driver, self.library = Driver(), Library(_lib.library(), self.SHAPES)
        self.info = {"usable": 1, "sms": 132, "why_not": ""}
        for each in (mock.patch.object(driver, "call", self.driver.call),
                     mock.patch.object(_lib, "library", lambda: self.library),
                     mock.patch.object(_lib, "info", lambda: self.info),
                     mock.patch.object(gpu, "_images", {})):
            each.start()
            self.addCleanup(each.stop)
        for kept in (gpu._stops, driver._context):
            kept.cache_clear()
            self.addCleanup(kept.cache_clear)

    def backward(self, layout="bshd", **arguments):
        back = ["bshd".index(each) for each in layout]
        self.arrays = [OnGpu(each.transpose(back)) for each in (self.q, self.k, self.v, self.out)]
        self.arrays += [OnGpu(self.lse), OnGpu(self.d_out.transpose(back))]
        return stagger.backward(*self.arrays, layout=layout, **arguments)

    def numbers(self, gradients):
        """What another library makes of them, on the CPU."""
        with mock.patch.object(dlpack, "CUDA", dlpack.CPU):
            return [np.from_dlpack(each) for each in gradients]

    def test_gradients_in_every_layout(self):
        wanted = numpy_ref.gradients(self.q, self.k, self.v, self.d_out, "causal")
        for layout in stagger.host.LAYOUTS:
            back = ["bshd".index(each) for each in layout]
            found = self.numbers(self.backward(layout, stream=7, timeout_ms=9))
            for ours, right in zip(found, wanted):
                self.assertEqual(ours.dtype, np.float16)
                np.testing.assert_array_equal(ours, right.astype(np.float16).transpose(back))
            self.assertEqual([each.streams for each in self.arrays], [[7]] * 6)
        self.assertEqual(self.library.calls, [("upload", 7)] + [("backward", 7, 9, n) for n in (1, 2, 3)])

    def test_images_that_were_made_first_go(self):
        with mock.patch.object(gpu, "MOST_IMAGES", 2):
            for schedule in ("spt", "descending", "spt", "ascending"):
                self.backward(schedule=schedule, stream=7)
                self.backward(schedule=schedule, stream=9)
        self.assertEqual([each[0] for each in self.library.calls].count("upload"), 3)
        self.assertEqual(len(self.driver.memory), 2)

    def test_memory_goes_when_nobody_has_it(self):
        gradients = self.backward(stream=7)
        self.assertEqual(len(self.driver.memory), 1 + 3)  # the image, and three gradients
        arrays = self.numbers(gradients)
        del gradients
        self.assertEqual(len(self.driver.memory), 1 + 3)
        del arrays
        self.assertEqual(len(self.driver.memory), 1)
        gradients = self.backward(stream=7)
        capsule = gradients[0].__dlpack__(stream=-1)
        del gradients
        self.assertEqual(len(self.driver.memory), 1 + 1)
        del capsule  # which nobody took
        gc.collect()
        self.assertEqual((len(self.driver.memory), dlpack._given), (1, {}))

    def test_who_takes_a_gradient_waits_for_it(self):
        gradient = self.backward(stream=7)[0]
        self.driver.log.clear()
        del self.arrays
        capsule = gradient.__dlpack__(stream=7)
        self.assertEqual(self.driver.log, [])
        del capsule
        gradient.__dlpack__(stream=9)
        self.assertEqual([each for each in self.driver.log if each[0] in (
            "cuEventRecord", "cuStreamWaitEvent")], [("cuEventRecord", 7), ("cuStreamWaitEvent", 9, 0)])
        address = gradient.address
        del gradient
        self.assertEqual(self.driver.log[-1], ("cuMemFreeAsync", address, 9))

    def test_an_array_is_read_as_it_lies(self):
        with mock.patch.object(driver, "Memory", lambda *_: types.SimpleNamespace(address=4096)):
            given = dlpack.Gradient(3, (2, 5, 4), "bf16", 7)
        read = dlpack.Array(types.SimpleNamespace(
            __dlpack__=lambda stream: given.__dlpack__(stream=-1)), 7)
        self.assertEqual((read.device, read.dtype, read.shape, read.strides, read.address),
                         (3, "bf16", (2, 5, 4), (20, 4, 1), 4096))
        capsule = given.__dlpack__(stream=-1)
        list(dlpack._given.values())[-1][0].tensor.byte_offset = 16
        self.assertEqual(dlpack.Array(types.SimpleNamespace(
            __dlpack__=lambda stream: capsule), 7).address, 4096 + 16)
        part = self.q[1, ::2, 1:]
        read = dlpack.Array(OnGpu(part), 7)
        self.assertEqual((read.dtype, read.shape, read.address), ("fp16", part.shape, part.ctypes.data))
        self.assertEqual([each * 2 for each in read.strides], list(part.strides))
        self.assertIn("(1, 8)", dlpack.Array(OnGpu(np.zeros(3, np.uint8)), 7).dtype)

    def test_a_call_that_was_stopped_is_told_of(self):
        self.backward()
        self.library.status.code, self.library.status.call_id = 12, 1
        with self.assertRaisesRegex(stagger.Timeout, "call 1 .*spt"):
            self.backward()
        self.backward()

    def test_refusals(self):
        with self.assertRaisesRegex(stagger.UsageError, "on the CPU"):
            self.backward(threads=2)
        with self.assertRaisesRegex(stagger.UsageError, "on a GPU"):
            stagger.backward(self.q, self.k, self.v, self.out, self.lse, self.d_out, stream=7)
        self.info = {**self.info, "usable": 0, "why_not": "too old"}
        with self.assertRaisesRegex(stagger.NoDevice, "too old"):
            self.backward()
        self.lse = self.lse.astype(np.float16)
        with self.assertRaisesRegex(ValueError, "lse is fp16 on cuda:0; it is fp32"):
            self.backward()
        self.lse = self.lse.astype(np.float32)[:, :1]
        with self.assertRaisesRegex(ValueError, "lse is"):
            self.backward()
        self.q, self.k, self.v, self.out, self.d_out = (
            each.astype(np.float32) for each in (self.q, self.k, self.v, self.out, self.d_out))
        with self.assertRaisesRegex(stagger.Unsupported, "q is fp32"):
            self.backward()

    def test_without_a_driver(self):
        with mock.patch.object(ctypes, "CDLL", side_effect=OSError("none")), \
                self.assertRaisesRegex(stagger.NoDevice, "driver is not here: none"):
            driver._library.__wrapped__()


if __name__ == "__main__":
    unittest.main()
