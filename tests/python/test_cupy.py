"""The module on arrays of CuPy: what it launches on the GPUs of the stand-in driver.

fake_cupy.py takes CuPy's place. Where CuPy and a GPU are there, real_cupy.py tries its own arrays."""

import unittest

import numpy as np

import fake_cupy as cupy
from fake_gpus import GpuLaunches, import_kiln
from support import KilnTest


def setUpModule():
    global kiln, fake
    kiln, fake = import_kiln({"cupy": cupy})


class OnGpu(GpuLaunches, KilnTest):
    cuda = cupy.cuda

    @property
    def driver(self):
        return fake

    def array(self, values, index=0):
        made = cupy.array(values)
        made.index = index
        return made

    def test_devices_and_streams(self):
        self.check_streams(lambda index: self.array(np.ones(256), index), lambda a: a.data.ptr, lambda a: a.device.id)

    def test_results(self):
        x, y = self.array(np.ones((3, 4))), self.array(np.ones(4, np.float64))
        for _ in range(2):
            result = kiln.op("x < y")(x, y)
            self.assertEqual((type(result), result.shape, result.dtype), (cupy.ndarray, (3, 4), np.bool_))
        out = self.array(np.zeros((3, 4)))
        self.assertIs(kiln.op("relu6")(x, out=out), out)
        self.assertIn(out.data.ptr, self.launches()[-1].parameters[:4])

    def test_strides(self):
        x = self.array(np.ones((6, 4)))
        for view in (x.T, x[::2], x[:, 1:3]):
            kiln.op("x + 1")(view)
            self.assertIn(view.data.ptr, list(self.launches()[-1].parameters))
        kiln.op("x + 1")(self.array(np.ones(8)))  # of the same shape and strides as the next one
        bytes_apart = np.zeros(33, np.uint8)[1:].view(np.float32).view(cupy.ndarray)  # between words: a copy is read
        kiln.op("x + 1")(bytes_apart)
        self.assertNotIn(bytes_apart.data.ptr, list(self.launches()[-1].parameters))

    def test_what_is_made_is_on_the_device_of_the_arrays(self):
        cupy.cuda.current = 0
        x = self.array(np.ones((4, 6)), 1)
        by_x, = kiln.op("x * x").gradients(x)
        self.assertEqual((by_x.device.id, self.launches()[-1].context), (1, self.contexts[1]))
        bytes_apart = np.zeros(33, np.uint8)[1:].view(np.float32).view(cupy.ndarray)
        bytes_apart.index = 1
        for _ in range(2):  # on a copy
            self.assertEqual(kiln.op("x + 3")(bytes_apart).device.id, 1)
            self.assertEqual(self.launches()[-1].context, self.contexts[1])

    def test_refusals(self):
        x = self.array(np.ones(4))
        for error, words, inputs in ((TypeError, "arrays of one library", (x, np.ones(4))),
                                     (TypeError, "complex64", (x, x.astype(np.complex64))),
                                     (kiln.Error, "copy them to one device", (x, self.array(np.ones(4), 1)))):
            with self.assertRaisesRegex(error, words):
                kiln.op("x + y")(*inputs)

    def test_load_inline(self):
        text = 'extern "C" __global__ void fill(float *y, float value) { y[threadIdx.x] = value; }'
        x = self.array(np.ones(4), 1)
        cupy.cuda.streams = self.new_streams()
        kiln.load_inline("fill", text).fill[1, 4](x, 2.0)
        launch = self.launches()[-1]
        self.assertEqual((launch.parameters[0], launch.context, launch.stream),
                         (x.data.ptr, self.contexts[1], cupy.cuda.streams[1]))


if __name__ == "__main__":
    unittest.main()
