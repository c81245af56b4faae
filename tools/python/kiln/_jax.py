"""Arrays of JAX: ops run on them eagerly, outside of JAX's streams."""

import jax
import jax.numpy as jnp

from ._arrays import Arrays, numpy_dtypes
from ._blocks import dense_strides
from ._library import lib, mine, must, session


class JAX(Arrays):
    """Arrays of JAX, on the cpu and on CUDA. A call waits for its inputs and, on a GPU, for its results."""

    module = jnp

    def __init__(self):
        super().__init__(jax.Array, numpy_dtypes())

    def key(self, arrays):
        key = []
        for a in arrays:
            if not isinstance(a, self.type) or isinstance(a, jax.core.Tracer) or len(a.devices()) != 1:
                return None
            key.append((a.dtype, a.shape, self._index(a)))
        return tuple(key)

    @staticmethod
    def _index(array):
        device, = array.devices()
        return -1 if device.platform == "cpu" else device.local_hardware_id

    def facts(self, array):
        if isinstance(array, jax.core.Tracer):
            raise TypeError("Kiln computes arrays, and within jax.jit or jax.grad there are none: call the op outside")
        code = self.code_of(array)
        if len(array.devices()) > 1:
            raise TypeError(f"an array is spread over {len(array.devices())} devices: give the part of one")
        return code, array.shape, dense_strides(array.shape), self._index(array)

    def pointer(self, array):
        return array.block_until_ready().unsafe_buffer_pointer()

    def maker(self, code, shape, inputs):
        dtype = self.dtypes[code]
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise TypeError(f"the op gives {dtype}, which JAX has with jax_enable_x64 alone")
        return lambda array: jnp.empty(shape, dtype, device=array.device), 0

    def ones_like(self, array):
        return jnp.ones_like(array)

    def check_out(self, array):
        raise TypeError("arrays of JAX do not change: take the result instead of out")

    def is_contiguous(self, array):
        return True

    def contiguous(self, array):
        return array

    def finish(self, device):
        """JAX may use the results at once."""
        if device >= 0:
            must(lib.kiln_sync(session().device(device), mine.pointer))
