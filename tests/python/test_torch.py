"""The module on PyTorch's tensors: on the cpu, and what it launches on the GPUs of the stand-in driver.

PyTorch need not be here: fake_torch.py takes its place. Where it can be imported, its own tensors are tried as well."""

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
import weakref

import numpy as np

import fake_torch as torch
from fake_gpus import GpuLaunches, import_kiln
from support import STORAGE, KilnTest, clamp, narrow, some_values, widen

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}


TEXT = """extern "C" __global__ void scale(float *y, const float *x, float factor, long long n, short s, double d) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] * factor + s + d; }
template <class T, int N> __global__ void fill(T *y, T value) { y[threadIdx.x] = value * N; }
struct pair { int a, b; };
extern "C" __global__ void sum(int *y, pair p) { *y = p.a + p.b; }
"""




def setUpModule():
    global kiln, fake
    kiln, fake = import_kiln({"torch": torch})
    kiln.op("copy")  # finds PyTorch


class ThroughCtypes(KilnTest):
    """Every call goes through ctypes, as without kiln._call."""

    in_c = False

    def setUp(self):
        super().setUp()
        from kiln import _library
        if self.in_c and _library._call is None:
            self.skipTest("no Python.h")
        kiln._ops._op.cache_clear()
        self.addCleanup(kiln._ops._op.cache_clear)
        patch = unittest.mock.patch.object(_library, "_call", _library._call if self.in_c else None)
        patch.start()
        self.addCleanup(patch.stop)


class OnCpu(ThroughCtypes):
    def test_results(self):
        x, y = torch.Tensor([[1, -2, 3]]), torch.Tensor([[4], [5]])
        got = kiln.op("x + y")(x, y)
        self.assertEqual((got.dtype, got.device, got.array.tolist()), (torch.float32, "cpu", [[5, 2, 7], [6, 3, 8]]))
        self.assertEqual(kiln.op("x < y")(x, y).array.tolist(), [[True] * 3] * 2)
        for _ in range(2):
            self.assertEqual(kiln.op("copy")(torch.Tensor([1.5, -2])).array.tolist(), [1.5, -2])
            self.assertEqual(kiln.op("copy")(torch.Tensor([1.5, -2], negated=True)).array.tolist(), [-1.5, 2])
        self.assertEqual(kiln.op("sum(x)")(torch.Tensor(np.ones((3, 4)).T)).array.tolist(), [3] * 4)

    def test_every_dtype_bit_for_bit(self):
        op = kiln.elementwise("hardtanh(-1,0.5)")
        for dtype in STORAGE:
            values = some_values(dtype, 4000, 0)
            wide = widen(values, dtype)
            one = wide.dtype.type
            for _ in range(2):
                y = op(torch.Tensor(values, DTYPES[dtype]))
                self.assert_same(y.array, narrow(clamp(wide, one(-1), one(0.5)), dtype), dtype)

    def test_shapes(self):
        add, values = kiln.op("x + y"), np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        for x, y in ((values, values), (values.T, values.T), (values[:, ::2], values[:, 1:]), (values, values[0, 0]),
                     (values[0, 0], values), (values[:, :, :1], values[:1]), (values[:0], values[:0]),
                     (values[0, 0, 0], values[1, 1, 1])):
            for _ in range(2):
                self.assert_same(np.asarray(add(torch.Tensor(x), torch.Tensor(y)).array), np.asarray(x + y), "f32")

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


class OnCpuInC(OnCpu):
    """The second and later calls are made in C."""

    in_c = True

    def run_in_c(self, op, inputs, numbers=()):
        """The result of a call in C; None: C left it to Python."""
        del torch.exchanged[:]
        return op._run(inputs, numbers)

    def test_a_library_is_found_once(self):
        from kiln import _arrays
        made, kind = [], _arrays._made["torch"]

        def make():
            made.append(None)
            time.sleep(0.05)
            return kind

        with unittest.mock.patch.dict(_arrays._LIBRARIES, {"torch": make}), unittest.mock.patch.dict(_arrays._made, clear=True):
            threads = [threading.Thread(target=_arrays._make, args=("torch",)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(len(made), 1)

    def test_results_in_c(self):
        kiln.define_op("python_in_c(x, y) = (x + y, x > y)")
        op, scaled, rng = kiln.op("python_in_c"), kiln.op("x * ?a + y"), np.random.default_rng(3)
        for shape, other in (((3, 4), (4,)), ((5,), ()), ((2, 3, 4), (3, 1)), ((0, 3), (3,))):
            for dtype in (torch.float32, torch.float64):
                x, y = (torch.Tensor(rng.standard_normal(extents), dtype) for extents in (shape, other))
                self.assertIsNone(self.run_in_c(op, (x, y)))
                first = op(x, y)
                total, more = self.run_in_c(op, (x, y))
                self.assertEqual(torch.exchanged, [dtype, dtype, dtype, torch.bool])
                self.assertEqual((total.dtype, more.dtype, total.shape), (dtype, torch.bool, first[0].shape))
                self.assertEqual(more.array.tolist(), (x.array > y.array).tolist())
                self.assertEqual(total.array.tolist(), (x.array + y.array).tolist())
                scaled(x, y, a=1)
                for a in (2.0, -0.5):
                    result = self.run_in_c(scaled, (x, y), (a,))
                    np.testing.assert_allclose(result.array, x.array * a + y.array, rtol=1e-5, atol=1e-6)
                x = torch.Tensor(np.asfortranarray(x.array), dtype)  # other strides are another plan
                self.assertEqual(op(x, y)[0].array.tolist(), total.array.tolist())
                self.assertEqual(self.run_in_c(op, (x, y))[0].array.tolist(), total.array.tolist())

    def test_left_to_python(self):
        op, x = kiln.op("relu6"), torch.Tensor([1, -2, 7])
        op(x)
        self.assertEqual(self.run_in_c(op, (x,)).array.tolist(), [1, 0, 6])
        recorded = torch.Tensor([1, -2, 7], requires_grad=True)
        for inputs, numbers in (((recorded,), ()), ((torch.Tensor([1, -2, 7], negated=True),), ()), ((x, x), ()), ((), ()),
                                ((np.ones(3),), ()), ((x,), (1.0,)), ((torch.Tensor([1, -2, 7], device="meta"),), ()),
                                ((torch.Tensor(np.ones((1,) * 9)),), ()), ((3,), ()), ((None,), ())):
            for _ in range(2):
                self.assertIsNone(self.run_in_c(op, inputs, numbers))
        for arguments in ((), ((x,),), ([x], ()), (x, ()), ((x,), None), ((x,), (), 1)):
            self.assertIsNone(op._run(*arguments))
        with torch.no_grad():
            self.assertEqual(self.run_in_c(op, (recorded,)).array.tolist(), [1, 0, 6])

    def test_plans_are_bounded_and_make_room(self):
        op, held = kiln.op("x + 1"), []
        for _ in range(2):
            for count in range(1, 300):
                x = torch.Tensor(np.arange(count))
                self.assertEqual(op(x).array.tolist(), list(range(1, count + 1)))
                held.append(self.run_in_c(op, (x,)) is not None)
        self.assertTrue(all(held))
        self.assertLess(len(op._plans), 600)

    def test_threads(self):
        op, failures = kiln.op("x + 1"), []

        def work(first):
            for count in range(first, first + 600):
                x = torch.Tensor(np.arange(count % 100))
                if op(x).array.tolist() != list(range(1, count % 100 + 1)):
                    failures.append(count)

        threads = [threading.Thread(target=work, args=(37 * k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_a_child_of_fork(self):
        op, x = kiln.op("x + 1"), torch.Tensor([1, 2])
        op(x)
        child = os.fork()
        if child == 0:
            right = op._run((x,), ()) is None and all(op(x).array.tolist() == [2, 3] for _ in range(3))
            os._exit(0 if right and op._run((x,), ()) is not None else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.run_in_c(op, (x,)).array.tolist(), [2, 3])

    def test_a_launch_that_fails_is_left_to_python(self):
        from kiln import _library
        op, x = kiln.op("x + y"), torch.Tensor([1, 2])
        op(x, x)
        fail = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: _library.EINVAL)
        _library._call.use(ctypes.cast(fail, ctypes.c_void_p).value, _library.session().service.value)
        self.addCleanup(_library._use_in_calls, _library.session().service.value)
        self.assertIsNone(self.run_in_c(op, (x, x)))
        self.assertEqual(op(x, x).array.tolist(), [2, 4])  # by ctypes

    def test_nothing_is_held(self):
        op, x, makers = kiln.op("x + y"), torch.Tensor([1, 2]), torch._C._dynamo.guards._empty_strided_cpu
        op(x, x)
        self.assertEqual(torch.made_strided[-1], (2,))
        gc.collect()  # plans of other tests
        held = sys.getrefcount(x), sys.getrefcount(makers), sys.getrefcount(None)
        for _ in range(1000):
            result = weakref.ref(op._run((x, x), ()))
            self.assertIsNone(result())
            self.assertIsNone(op._run((x, 3), ()))
        now = sys.getrefcount(x), sys.getrefcount(makers), sys.getrefcount(None)
        self.assertEqual(held[:2], now[:2])
        self.assertLess(abs(held[2] - now[2]), 100)
        arguments = ((2,), (1,), torch.float32)
        for _ in range(100):
            op._calls.keep((x, x), 0, None, ((makers, arguments),), (1, 1, 1))
            self.assertEqual((sys.getrefcount(makers), sys.getrefcount(arguments)), (held[1], 3))  # one of the plan

    def test_what_is_wrong_with_a_plan(self):
        from kiln import _library
        calls = _library.calls_of(b"op=relu6", 1, 0)
        x = torch.Tensor([1, 2])
        for error, arguments in ((TypeError, ([x], 0, None, (), (1,))), (ValueError, ((x,), 0, None, ((abs, 1),), (1, 1))),
                                 (TypeError, ((x,), 0, None, ((abs, "0"),), (1, 1))),
                                 (TypeError, ((x,), 0, None, (abs,), (1, 1))), (TypeError, ((x,), 0, None, ((abs, 0),), ("1", 1)))):
            with self.assertRaises(error):
                calls.keep(*arguments)
        for error, arguments in ((ValueError, (b"op=relu6", 9, 0)), (ValueError, (b"op=relu6", 1, 9)), (TypeError, ("op=relu6", 1, 0))):
            with self.assertRaises(error):
                _library.calls_of(*arguments)


class OnGpu(GpuLaunches, ThroughCtypes):
    """Launches on the stand-in driver, which records them."""

    cuda = torch.cuda

    @property
    def driver(self):
        return fake

    def tensor(self, count=256, device="cuda:0", dtype=torch.float32):
        return torch.Tensor(np.ones(count), dtype, device)

    def test_devices_and_streams(self):
        self.check_streams(lambda index: self.tensor(device=f"cuda:{index}"), torch.Tensor.data_ptr, torch.Tensor.get_device)

    def test_load_inline_streams(self):
        module, x = kiln.load_inline("scale", TEXT, "sum"), self.tensor()
        torch.cuda.streams = streams = self.new_streams()
        for given, want in ((None, streams[0]), (streams[0], streams[0]), (0, 0)):
            module.sum[1, 1](x, (ctypes.c_int32 * 2)(5, 6), stream=given)
            self.assertEqual(self.launches()[-1].stream or 0, want)
        self.assertEqual(torch.cuda.current, 0)

    def test_load_inline(self):
        x, y, n = self.tensor(), self.tensor(), 1 << 40
        module = kiln.load_inline("scale", [TEXT], ["scale", "fill<float, 3>", "sum"], with_cuda=True,
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


class OnGpuInC(OnGpu):
    in_c = True

    def test_another_device_is_current(self):
        add, x = kiln.op("x + y"), self.tensor(device="cuda:1")
        add(x, x)
        self.assertIsNone(add._run((x, x), ()))  # the default stream would be that of cuda:0
        with torch.cuda.device(1):
            self.assertIsNotNone(add._run((x, x), ()))
        self.assertEqual([launch.context for launch in self.launches()], [self.contexts[1]] * 2)


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
