"""docs/examples/pytorch: what it computes on the cpu, and what it launches on the GPUs of the stand-in driver.

PyTorch need not be here: fake_torch.py takes its place. Where it can be imported, its own tensors are tried as well."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import fake_torch as torch
from fake_gpus import TEXT, GpuLaunches, load_driver
from support import FAKE_LIBCUDA, KilnTest, STORAGE, clamp, narrow, some_values, widen

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "examples", "pytorch")
LIBRARY = os.path.join(os.environ.get("KILN_BUILD_DIR", ""), "src", "libkiln.so")
DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}


def setUpModule():
    """Imports the example, which opens its service then."""
    global kiln_torch, fake
    if os.environ.get("KILN_SANITIZE"):
        raise unittest.SkipTest("Python cannot load a library that is built with a sanitizer")
    cache = tempfile.mkdtemp(prefix="kiln-pytorch-")
    unittest.addModuleCleanup(shutil.rmtree, cache, ignore_errors=True)
    for name in [name for name in os.environ if name.startswith("KILN_") and name[5:] in (
            "DEVICE", "RECORD", "PACKS", "SHARED_DIR", "STRICT", "ISOLATE", "WORKER")]:
        del os.environ[name]
    os.environ.update(KILN_CACHE_DIR=cache, KILN_LIBRARY=LIBRARY, KILN_LIBCUDA=FAKE_LIBCUDA,
                      KILN_FAKE_CUDA="sm=90,devices=2")
    sys.modules["torch"] = torch
    sys.path.insert(0, EXAMPLE)
    import kiln_torch as imported
    kiln_torch = imported
    fake = load_driver()


class OnCpu(KilnTest):
    def test_every_dtype_bit_for_bit(self):
        for dtype in STORAGE:
            values = some_values(dtype, 4000, 0)
            y = kiln_torch.elementwise("hardtanh(-1,0.5)")(torch.Tensor(values, DTYPES[dtype]))
            wide = widen(values, dtype)
            one = wide.dtype.type
            self.assert_same(y.array, narrow(clamp(wide, one(-1), one(0.5)), dtype), dtype)

    def test_result_of_another_dtype(self):
        values = np.array([1, -2, 300, 0], dtype=np.int32)
        x, y = torch.Tensor(values, torch.int32), torch.Tensor([1, 2, -300, 1], torch.int32)
        for op, dtype, want in (("eq", torch.bool, [True, False, False, False]), ("add", torch.int32, [2, 0, 0, 1]),
                                ("div", torch.float32, [1, -1, -1, 0]), ("add(x,y) out=f64", torch.float64, [2, 0, 0, 1])):
            got = kiln_torch.elementwise(op)(x, y)
            self.assertEqual((got.dtype, got.array.tolist()), (dtype, want))
        out = torch.Tensor(np.zeros(4), torch.bool)
        self.assertIs(kiln_torch.elementwise("lt")(x, y, out=out), out)
        self.assertEqual(out.array.tolist(), [False, True, False, True])

    def test_shapes(self):
        add, values = kiln_torch.elementwise("add(x,y)"), np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        for x, y in ((values, values), (values.T, values.T), (values[:, ::2], values[:, 1:]), (values, values[0, 0]),
                     (values[0, 0], values), (values[:, :, :1], values[:1]), (values[:0], values[:0]),
                     (values[0, 0, 0], values[1, 1, 1])):
            want = x + y
            got = add(torch.Tensor(x), torch.Tensor(y)).array
            self.assert_same(np.asarray(got), np.asarray(want), "f32")

    def test_negated_view(self):
        y = kiln_torch.elementwise("copy")(torch.Tensor([1.5, -2], negated=True))
        self.assertEqual(y.array.tolist(), [-1.5, 2])

    def test_out(self):
        relu6, x = kiln_torch.elementwise("relu6"), torch.Tensor([[-1, 2, 9], [7, -0.5, 1]])
        want = [[0, 2, 6], [6, 0, 1]]
        out = torch.Tensor(np.zeros((2, 3)))
        self.assertIs(relu6(x, out=out), out)
        self.assertEqual((out.array.tolist(), out._version), (want, 1))
        strided = torch.Tensor(np.zeros((3, 2), dtype=np.float32).T)
        self.assertIs(relu6(x, out=strided), strided)
        self.assertEqual(strided.array.tolist(), want)
        relu6(x, out=x)
        self.assertEqual(x.array.tolist(), want)
        narrower, wide = torch.Tensor([[1], [2]]), torch.Tensor(np.ones((2, 3)))
        kiln_torch.elementwise("add(x,y)")(narrower, wide, out=wide)  # out is the input that is not broadcast
        self.assertEqual(wide.array.tolist(), [[2, 2, 2], [3, 3, 3]])

    def test_one_object_for_one_op(self):
        self.assertIs(kiln_torch.elementwise("relu6"), kiln_torch.elementwise("relu6"))

    def assert_refused(self, error, words, function, *args, **options):
        with self.assertRaises(error) as caught:
            function(*args, **options)
        self.assertEqual(len(str(caught.exception).splitlines()), 1)
        self.assertIn(words, str(caught.exception))

    def test_refuses(self):
        relu6, add, x = kiln_torch.elementwise("relu6"), kiln_torch.elementwise("add(x,y)"), torch.Tensor(np.ones(8))
        refused = self.assert_refused
        refused(RuntimeError, "did you mean hardsigmoid?", kiln_torch.elementwise, "hardsigmod")
        refused(RuntimeError, "template given twice", kiln_torch.elementwise, "copy template=rowsum")
        refused(RuntimeError, "dtype given twice", kiln_torch.elementwise("relu6 dtype=f64"), x)
        refused(TypeError, "takes 2 tensors, got 1", add, x)
        refused(TypeError, "takes 1 tensors, got 2", relu6, x, x)
        refused(RuntimeError, "got float32 on cpu and float64 on cpu", add, x, torch.Tensor(np.ones(8), torch.float64))
        refused(RuntimeError, "and float32 on cuda:0", add, x, torch.Tensor(np.ones(8), device="cuda:0"))
        refused(RuntimeError, "got complex64", relu6, torch.Tensor([1], torch.complex64))
        refused(RuntimeError, "of float32 gives float32 on cpu, and out is float64 on cpu", relu6, x,
                out=torch.Tensor(np.ones(8), torch.float64))
        refused(RuntimeError, "on meta", relu6, torch.Tensor([1], device="meta"))
        refused(RuntimeError, "out has shape (7,)", relu6, x, out=torch.Tensor(np.ones(7)))
        refused(RuntimeError, "out has shape", relu6, x, out=torch.Tensor(np.ones(8), requires_grad=True))
        refused(RuntimeError, "partly overlap", relu6, torch.Tensor(x.array[1:]), out=torch.Tensor(x.array[:-1]))
        self.assertEqual(x.array.tolist(), [1] * 8)

    def test_gradients(self):
        relu6, x = kiln_torch.elementwise("relu6"), torch.Tensor([7], requires_grad=True)
        self.assert_refused(RuntimeError, "no gradient", relu6, x)
        with torch.no_grad():
            self.assertEqual(relu6(x).array.tolist(), [6])


class OnGpu(GpuLaunches, KilnTest):
    """Launches on the stand-in driver, which records them."""

    @property
    def module(self):
        return kiln_torch

    @property
    def driver(self):
        return fake

    def open_device(self, index):
        kiln_torch._device(index)

    def test_load_inline_refuses(self):
        x, other, host = self.tensor(), self.tensor(device="cuda:1"), torch.Tensor(np.ones(8))
        scale = kiln_torch.load_inline("scale", TEXT, "scale").scale
        before = len(self.launches())
        for error, words, arguments in ((TypeError, "takes 6 arguments, got 1", (x,)),
                                        (RuntimeError, "argument 1 of scale is on cuda:1", (x, other, 1.0, 1, 1, 1.0)),
                                        (RuntimeError, "argument 1 of scale is on cpu", (x, host, 1.0, 1, 1, 1.0)),
                                        (RuntimeError, "tensor on the cpu", (host, x, 1.0, 1, 1, 1.0)),
                                        (TypeError, "argument 4 of scale is 2 bytes", (x, x, 1.0, 1, 1 << 16, 1.0)),
                                        (TypeError, "argument 3 of scale", (x, x, 1.0, "1", 1, 1.0)),
                                        (RuntimeError, "is 4 bytes, got 8", (x, x, x, 1, 1, 1.0))):
            with self.assertRaisesRegex(error, words):
                scale(1, 32, *arguments)
        self.assertEqual(len(self.launches()), before)
        with self.assertRaisesRegex(RuntimeError, "scale"):
            kiln_torch.load_inline("scale", TEXT, "scale").nothing(1, 1)
        with self.assertRaisesRegex(RuntimeError, r'broken.cu\(2\)'):
            kiln_torch.load_inline("broken", "\n__global__ void f() { x; }", "f")
        with self.assertRaisesRegex(RuntimeError, "cpp_sources was given. Kiln compiles code for the GPU only"):
            kiln_torch.load_inline("scale", TEXT, "scale", cpp_sources="void scale();")
        with self.assertRaisesRegex(RuntimeError, "includes torch/extension.h"):
            kiln_torch.load_inline("scale", "#include <torch/extension.h>\n" + TEXT, "scale")
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'colour'"):
            kiln_torch.load_inline("scale", TEXT, "scale", colour=1)
        with self.assertWarnsRegex(UserWarning, "extra_cflags has no effect: no C"):
            kiln_torch.load_inline("scale", TEXT, "scale", extra_cflags=["-O3"])


class RealTorch(KilnTest):
    def test_models(self):
        env = dict(self.env, KILN_LIBRARY=LIBRARY, KILN_LIBCUDA="/nowhere")
        found = subprocess.run([sys.executable, "-c", "import torch"], env=env, capture_output=True, check=False)
        if found.returncode != 0:
            self.skipTest("no PyTorch")
        result = subprocess.run([sys.executable, "-B", os.path.join(EXAMPLE, "models.py")], env=env, text=True,
                                stdout=subprocess.PIPE, check=True)
        self.assertRegex(result.stdout, "HardSigmoid on cpu: (equal to|within [1-9]e-0[89] of) torch\n"
                                        "HardTanh on cpu: equal to torch\nAdd on cpu: equal to torch\n")


if __name__ == "__main__":
    unittest.main()
