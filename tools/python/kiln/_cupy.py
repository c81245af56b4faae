"""Arrays of CuPy, on its current stream."""

import cupy

from ._arrays import NumPy


class CuPy(NumPy):
    """Arrays of CuPy: NumPy's in the memory of a GPU."""

    def __init__(self):
        super().__init__(cupy)
        self.several = cupy.cuda.runtime.getDeviceCount() > 1

    def key(self, arrays):
        key = []
        for a in arrays:
            if not isinstance(a, self.type):
                return None
            key.append((a.dtype, a.shape, a.strides, a.device.id, self.is_aligned(a)))
        return tuple(key)

    def prepare(self, array):
        return array

    def index(self, array):
        return array.device.id

    def is_aligned(self, array):
        return array.data.ptr % array.itemsize == 0

    def pointer(self, array):
        return array.data.ptr

    def check_out(self, array):
        pass

    def stream(self, device):
        return cupy.cuda.get_current_stream(device).ptr

    def on(self, array):
        return cupy.cuda.Device(array.device.id) if self.several else super().on(array)

    def guard(self, device):
        """Results are made on the current device, and the default stream is that of it."""
        return (lambda: cupy.cuda.Device(device)) if self.several else None
