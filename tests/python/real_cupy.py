"""The module with CuPy itself, on a GPU: results, strides, streams, gradients, CUDA text.

    KILN_LIBRARY=libkiln.so PYTHONPATH=tools/python python3 tests/python/real_cupy.py"""

import cupy
import numpy as np

import kiln


def must(truth, what):
    if not truth:
        raise SystemExit(f"wrong: {what}")


def results():
    made = cupy.random.RandomState(1)
    x, y = made.standard_normal((2, 20, 30)).astype("f")
    for _ in range(2):
        must((kiln.op("x + y")(x, y) == x + y).all(), "x + y")
        must((kiln.op("x + y")(x.T, y.T) == (x + y).T).all(), "transposed")
        must((kiln.op("x * y")(x[::-2, 1:], y[0, 1:]) == x[::-2, 1:] * y[0, 1:]).all(), "a part, reversed, by a row")
        must(cupy.allclose(kiln.op("softmax")(x), cupy.exp(x) / cupy.exp(x).sum(1, keepdims=True), atol=1e-6), "softmax")
        must(kiln.op("sum(x)")((10 * x).astype("i1")).dtype == np.int64, "the type of a sum")
    out = cupy.zeros_like(x)
    must(kiln.op("relu6")(x, out=out) is out and (out == cupy.clip(x, 0, 6)).all(), "out")
    by_x, by_y = kiln.op("x * y").gradients(x, y[0])
    must(cupy.allclose(by_x, cupy.broadcast_to(y[0], x.shape)) and cupy.allclose(by_y, x.sum(0), atol=1e-4), "gradients")


def streams():
    """A launch in another stream would read what was there before."""
    x, add = cupy.zeros(1 << 24, "f"), kiln.op("x + 1")
    add(x)
    with cupy.cuda.Stream(non_blocking=True):
        for _ in range(20):
            x += 1
        must((add(x) == 21).all(), "in a stream")
    cupy.cuda.Device().synchronize()
    if cupy.cuda.runtime.getDeviceCount() > 1:
        with cupy.cuda.Device(1):
            x = cupy.ones(5, "f")
        result = add(x)
        must(result.device.id == 1 and (result == 2).all(), "the second GPU")


def text():
    module = kiln.load_inline("scale", 'extern "C" __global__ void scale(float *y, float by) { y[threadIdx.x] *= by; }')
    x = cupy.ones(32, "f")
    module.scale[1, 32](x, 3.0)
    must((x == 3).all(), "load_inline")


for part in (results, streams, text):
    part()
print(f"all of it is right, CuPy {cupy.__version__}")
