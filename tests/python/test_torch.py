"""The module on PyTorch's tensors: on the cpu, and what it launches on the GPUs of the stand-in driver.

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
from support import FAKE_LIBCUDA, OWN, KilnTest


def setUpModule():
    global kiln, fake
    if os.environ.get("KILN_SANITIZE"):
        raise unittest.SkipTest("Python cannot load a library that is built with a sanitizer")
    cache = tempfile.mkdtemp(prefix="kiln-python-")
    unittest.addModuleCleanup(shutil.rmtree, cache, ignore_errors=True)
    for name in (*OWN, "KILN_STRICT", "KILN_ISOLATE", "KILN_WORKER"):
        os.environ.pop(name, None)
    os.environ.update(KILN_CACHE_DIR=cache, KILN_LIBCUDA=FAKE_LIBCUDA, KILN_FAKE_CUDA="sm=90,devices=2")
    sys.modules["torch"] = torch
    import kiln as imported
    kiln = imported
    fake = load_driver()


class OnCpu(KilnTest):
    def test_results(self):
        x, y = torch.Tensor([[1, -2, 3]]), torch.Tensor([[4], [5]])
        got = kiln.op("x + y")(x, y)
        self.assertEqual((got.dtype, got.device, got.array.tolist()), (torch.float32, "cpu", [[5, 2, 7], [6, 3, 8]]))
        self.assertEqual(kiln.op("x < y")(x, y).array.tolist(), [[True] * 3] * 2)
        self.assertEqual(kiln.op("copy")(torch.Tensor([1.5, -2], negated=True)).array.tolist(), [-1.5, 2])
        self.assertEqual(kiln.op("sum(x)")(torch.Tensor(np.ones((3, 4)).T)).array.tolist(), [3] * 4)

    def test_out(self):
        x, out = torch.Tensor([[-1, 2, 9]]), torch.Tensor(np.zeros((1, 3)))
        for version in (1, 2):
            self.assertIs(kiln.op("relu6")(x, out=out), out)
            self.assertEqual((out.array.tolist(), out._version), ([[0, 2, 6]], version))
        for _ in range(2):
            with self.assertRaisesRegex(ValueError, "out has a gradient"):
                kiln.op("relu6")(x, out=torch.Tensor(np.zeros((1, 3)), requires_grad=True))

    def test_gradients(self):
        op, x, y = kiln.op("relu6(x) * y"), torch.Tensor([7, 2, -1], requires_grad=True), torch.Tensor([[3], [4]])
        for _ in range(2):
            result = op(x, y)
            self.assertEqual(result.array.tolist(), [[18, 6, 0], [24, 8, 0]])
            found = result.grad_fn(torch.Tensor([[1, 2, 3], [4, 5, 6]]))
            self.assertEqual(found[:2] + found[3:], (None, None, None))
            self.assertEqual(found[2].array.tolist(), [0, 1 * 0 + 2 * 3 + 5 * 4, 0])
            with torch.no_grad():
                self.assertFalse(op(x, y).requires_grad)
        with self.assertRaisesRegex(RuntimeError, "out= takes no part in gradients"):
            op(x, y, out=torch.Tensor(np.zeros((2, 3))))

    def test_refusals(self):
        x = torch.Tensor(np.ones(8))
        for words, arguments in (("complex64", (x, torch.Tensor([1], torch.complex64))),
                                 ("on meta", (torch.Tensor([1], device="meta"), x)),
                                 ("arrays of one library", (x, np.ones(8)))):
            with self.assertRaisesRegex(TypeError, words):
                kiln.op("x + y")(*arguments)
        with self.assertRaisesRegex(kiln.Error, "copy them to one device"):
            kiln.op("x + y")(x, torch.Tensor(np.ones(8), device="cuda:0"))


class OnGpu(GpuLaunches, KilnTest):
    """Launches on the stand-in driver, which records them."""

    @property
    def module(self):
        return kiln

    @property
    def driver(self):
        return fake

    def open_device(self, index):
        from kiln import _library
        _library.session().device(index)

    def test_load_inline_refuses(self):
        x, other, host = self.tensor(), self.tensor(device="cuda:1"), torch.Tensor(np.ones(8))
        scale = kiln.load_inline("scale", TEXT, "scale").scale
        before = len(self.launches())
        for error, words, arguments in ((TypeError, "takes 6 arguments, got 1", (x,)),
                                        (RuntimeError, "argument 1 of scale is on cuda:1", (x, other, 1.0, 1, 1, 1.0)),
                                        (RuntimeError, "argument 1 is on the cpu", (x, host, 1.0, 1, 1, 1.0)),
                                        (RuntimeError, "argument 0 is on the cpu", (host, x, 1.0, 1, 1, 1.0)),
                                        (RuntimeError, "argument 1 is on the cpu", (x, np.ones(8), 1.0, 1, 1, 1.0)),
                                        (TypeError, "argument 4 of scale is 2 bytes", (x, x, 1.0, 1, 1 << 16, 1.0)),
                                        (TypeError, "argument 3 of scale", (x, x, 1.0, "1", 1, 1.0)),
                                        (RuntimeError, "is 4 bytes, got 8", (x, x, x, 1, 1, 1.0))):
            with self.assertRaisesRegex(error, words):
                scale(1, 32, *arguments)
        self.assertEqual(len(self.launches()), before)
        with self.assertRaisesRegex(kiln.Error, "scale"):
            kiln.load_inline("scale", TEXT, "scale").nothing(1, 1)
        with self.assertRaisesRegex(kiln.Error, r"broken.cu\(2\)"):
            kiln.load_inline("broken", "\n__global__ void f() { x; }", "f")
        with self.assertRaisesRegex(RuntimeError, "cpp_sources was given. Kiln compiles code for the GPU only"):
            kiln.load_inline("scale", TEXT, "scale", cpp_sources="void scale();")
        with self.assertRaisesRegex(RuntimeError, "includes torch/extension.h"):
            kiln.load_inline("scale", "#include <torch/extension.h>\n" + TEXT, "scale")
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'colour'"):
            kiln.load_inline("scale", TEXT, "scale", colour=1)
        with self.assertWarnsRegex(UserWarning, "extra_cflags has no effect: no C"):
            kiln.load_inline("scale", TEXT, "scale", extra_cflags=["-O3"])


class Real(KilnTest):
    """With the libraries themselves, where they are installed."""

    def run_with(self, library):
        env = dict(self.env, KILN_LIBCUDA="/nowhere")
        found = subprocess.run([sys.executable, "-c", f"import {library}"], env=env, capture_output=True, check=False)
        if found.returncode != 0:
            self.skipTest(f"no {library}")
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"real_{library}.py")
        result = subprocess.run([sys.executable, "-B", script], env=env, text=True, stdout=subprocess.PIPE, check=True)
        self.assertRegex(result.stdout, "all of it is right\n$")

    def test_torch(self):
        self.run_with("torch")

    def test_jax(self):
        self.run_with("jax")


if __name__ == "__main__":
    unittest.main()
