"""Launches of a Python module on the GPUs of the stand-in driver, with the tensors of fake_torch.py."""

import ctypes

import numpy as np

import fake_torch as torch
from support import FAKE_LIBCUDA, compiler_builds_for_gpus

TEXT = """extern "C" __global__ void scale(float *y, const float *x, float factor, long long n, short s, double d) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] * factor + s + d; }
template <class T, int N> __global__ void fill(T *y, T value) { y[threadIdx.x] = value * N; }
struct pair { int a, b; };
extern "C" __global__ void sum(int *y, pair p) { *y = p.a + p.b; }
"""


class Launch(ctypes.Structure):  # kiln_fake_launch
    _fields_ = [("name", ctypes.c_char * 64), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("cluster", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("cooperative", ctypes.c_int),
                ("stream", ctypes.c_void_p), ("context", ctypes.c_void_p), ("parameter_count", ctypes.c_uint),
                ("parameters", ctypes.c_uint64 * 8)]


def load_driver():
    driver = ctypes.CDLL(FAKE_LIBCUDA)
    for name in ("context_primary", "stream_new"):
        getattr(driver, "kiln_fake_" + name).restype = ctypes.c_void_p
    return driver


class GpuLaunches:
    """Tests that the driver records, for a KilnTest that has `module`, `driver` and open_device(index)."""

    def setUp(self):
        super().setUp()
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        self.driver.kiln_fake_reset()
        torch.cuda.streams = (0, 0)
        self.open_device(0), self.open_device(1)
        contexts = [ctypes.c_void_p(self.driver.kiln_fake_context_primary(i)) for i in range(2)]
        self.contexts = [context.value for context in contexts]
        torch.cuda.bind = lambda index: self.driver.kiln_fake_context_set(contexts[index])
        torch.cuda.bind(0)
        self.addCleanup(self.driver.kiln_fake_context_set, None)

    def launches(self):
        found = (Launch * 64)()
        return list(found[:self.driver.kiln_fake_launches(found, ctypes.c_size_t(64))])

    def tensor(self, count=256, device="cuda:0", dtype=torch.float32):
        return torch.Tensor(np.ones(count), dtype, device)

    def test_devices_and_streams(self):
        add = self.module.elementwise("add(x,y)")
        streams = [self.driver.kiln_fake_stream_new(ctypes.c_void_p(context)) for context in self.contexts]
        self.addCleanup(lambda: [self.driver.kiln_fake_stream_free(ctypes.c_void_p(stream)) for stream in streams])
        for torch.cuda.streams in ((0, 0), streams):
            for index in (1, 0, 1):
                x, y = self.tensor(device=f"cuda:{index}"), self.tensor(device=f"cuda:{index}")
                out = add(x, y)
                launch = self.launches()[-1]
                self.assertEqual(out.device, x.device)
                self.assertEqual(launch.context, self.contexts[index])
                self.assertEqual(launch.stream or 0, torch.cuda.streams[index])
                self.assertEqual(set(launch.parameters[:4]), {out.data_ptr(), x.data_ptr(), y.data_ptr(), 256})
        module = self.module.load_inline("scale", TEXT, "sum")
        for given, want in ((None, streams[0]), (streams[0], streams[0]), (0, 0)):
            module.sum[1, 1](self.tensor(), (ctypes.c_int32 * 2)(5, 6), stream=given)
            self.assertEqual(self.launches()[-1].stream or 0, want)
        self.assertEqual(torch.cuda.current, 0)

    def test_load_inline(self):
        x, y, n = self.tensor(), self.tensor(), 1 << 40
        module = self.module.load_inline("scale", [TEXT], ["scale", "fill<float, 3>", "sum"], with_cuda=True,
                                         extra_cuda_cflags=["-O3", "--use_fast_math"])
        module.scale[(2, 3), 128](y, x, 2.0, n, -3, 0.5)
        launch = self.launches()[-1]
        self.assertEqual((launch.name, list(launch.grid), list(launch.block)), (b"scale", [2, 3, 1], [128, 1, 1]))
        self.assertEqual(launch.parameters[:6], [y.data_ptr(), x.data_ptr(), 0x40000000, n, 0xFFFD, 0x3FE0 << 48])
        module["fill<float, 3>"](1, 256, y, 1.0, shared=1024, cluster=(1, 1, 1))
        launch = self.launches()[-1]
        self.assertEqual((launch.shared, list(launch.cluster), launch.parameter_count), (1024, [1, 1, 1], 2))
        module.sum(1, 1, y, (ctypes.c_int32 * 2)(5, 6), cooperative=True)
        self.assertEqual((self.launches()[-1].parameters[1], self.launches()[-1].cooperative), (5 | 6 << 32, 1))
        module.sum(1, 1, self.tensor(device="cuda:1"), (ctypes.c_int32 * 2)(5, 6))
        self.assertEqual(self.launches()[-1].context, self.contexts[1])
