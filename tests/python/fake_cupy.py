"""As much of CuPy as the Python module needs, on NumPy arrays, for machines without a GPU: the memory is the host's.

`cuda.bind` is called with the number of a device that becomes current."""

import types

import numpy as np
from fake_devices import Devices
from numpy import float32, promote_types  # noqa: F401


class ndarray(np.ndarray):
    __module__ = "cupy"
    index = 0

    def __array_finalize__(self, other):
        self.index = getattr(other, "index", cuda.current)  # of a view

    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.ctypes.data)

    @property
    def device(self):
        return types.SimpleNamespace(id=self.index)

    def copy(self, order="C"):
        return _made(np.ndarray.copy(self, order))

    @property
    def flags(self):
        flags = np.ndarray.flags.__get__(self)
        return types.SimpleNamespace(c_contiguous=flags.c_contiguous)


class _Cuda(Devices):
    runtime = types.SimpleNamespace(getDeviceCount=lambda: 2)

    def get_current_stream(self, index):
        return types.SimpleNamespace(ptr=self.streams[index])

    Device = Devices.device


cuda = _Cuda()


def _made(array):
    """A new array, which is on the current device."""
    array.index = cuda.current
    return array


def array(values, dtype=np.float32):
    return np.array(values, dtype).view(ndarray)


def empty(shape, dtype):
    made = np.empty(shape, dtype).view(ndarray)
    made.view(np.ndarray).view(np.uint8)[...] = 0x5A
    return made


def ones_like(other):
    return _made(np.ones_like(other))


def broadcast_to(other, shape):
    return np.broadcast_to(other, shape, subok=True)
