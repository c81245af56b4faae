"""Arrays of JAX: ops run on them eagerly, outside of JAX's streams."""

import jax
import jax.numpy as jnp

from ._arrays import numpy_dtypes
from ._library import REAL, lib, mine, must, session


class JAX:
    """Arrays of JAX, on the cpu and on CUDA. A call waits for its inputs and, on a GPU, for its results."""

    def __init__(self):
        self.type = jax.Array
        self.dtypes = numpy_dtypes()
        self.codes = {dtype: code for code, dtype in self.dtypes.items()}

    def key(self, arrays):
        key = []
        for a in arrays:
            if not isinstance(a, self.type) or isinstance(a, jax.core.Tracer):
                return None
            key.append((a.dtype, a.shape, self._index(a)))
        return tuple(key)

    @staticmethod
    def _index(array):
        device, = array.devices()
        return -1 if device.platform == "cpu" else device.local_hardware_id

    def prepare(self, array):
        return array

    def facts(self, array):
        if isinstance(array, jax.core.Tracer):
            raise TypeError("Kiln computes arrays, and within jax.jit or jax.grad there are none: call the op outside")
        code = self.codes.get(array.dtype)
        if code is None:
            raise TypeError(f"arrays of {array.dtype} are none of {', '.join(map(str, self.codes))}: convert with astype")
        if len(array.devices()) > 1:
            raise TypeError(f"an array is spread over {len(array.devices())} devices: give the part of one")
        steps, step = [], 1
        for extent in reversed(array.shape):
            steps.append(step)
            step *= extent
        return code, array.shape, tuple(reversed(steps)), self._index(array)

    def is_strided(self, array):
        return True

    def pointer(self, array):
        return array.block_until_ready().unsafe_buffer_pointer()

    def maker(self, code, shape, inputs):
        dtype = self.dtypes[code]
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise TypeError(f"the op gives {dtype}, which JAX has with jax_enable_x64 alone")
        return lambda inputs: jnp.empty(shape, dtype, device=inputs[0].device)

    def is_real(self, array):
        return self.codes.get(array.dtype, 0) in REAL

    def ones_like(self, array):
        return jnp.ones_like(array)

    def reshape(self, array, shape):
        return array.reshape(shape)

    def fit(self, array, like):
        shape, extra = like.shape, array.ndim - like.ndim
        array = array.sum(tuple(range(extra))) if extra > 0 else array
        along = tuple(d for d in range(array.ndim) if shape[d] == 1 != array.shape[d])
        array = array.sum(along, keepdims=True) if along else array
        return jnp.broadcast_to(array, shape).astype(like.dtype)

    def is_traced(self):
        return False

    def records(self, arrays):
        return False

    def check_out(self, array):
        raise TypeError("arrays of JAX do not change: take the result instead of out")

    def written(self, array):
        pass

    def is_contiguous(self, array):
        return True

    def contiguous(self, array):
        return array

    def stream(self, device):
        return None

    def guard(self, device):
        return None

    def finish(self, device):
        """JAX may use the results at once."""
        if device >= 0:
            must(lib.kiln_sync(session().device(device), mine.pointer))
