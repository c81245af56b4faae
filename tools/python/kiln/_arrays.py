"""Arrays of other libraries: their types, shapes, strides and memory as Kiln takes them."""

import contextlib
import os
import sys
import threading

from ._library import DTYPES, REAL


def numpy_dtypes():
    """NumPy's types by number; ml_dtypes brings bfloat16 and the types of a byte."""
    import numpy
    named = {}
    for code, name in enumerate(DTYPES, 1):
        with contextlib.suppress(TypeError):  # unknown to NumPy itself
            named[code] = numpy.dtype(name)
    with contextlib.suppress(ImportError):
        import ml_dtypes
        named.update((code, numpy.dtype(getattr(ml_dtypes, name))) for code, name in enumerate(DTYPES, 1)
                     if code not in named)
    return named


class Arrays:
    """How to handle the arrays of a library. A class for one has their types by number and their memory."""

    in_c = False       # whether _call knows the arrays
    finish = None      # a function of the device that is called behind a launch

    def __init__(self, array_type, dtypes):
        self.type, self.types, self.dtypes = array_type, (array_type,), dtypes
        self.codes = {dtype: code for code, dtype in dtypes.items()}

    def prepare(self, array):
        """An array whose memory has the values."""
        return array

    def code_of(self, array):
        """The number of its type."""
        code = self.codes.get(array.dtype)
        if code is None:
            raise TypeError(f"arrays of {array.dtype} are none of {', '.join(map(str, self.codes))}: convert with astype")
        return code

    def is_real(self, array):
        return self.codes.get(array.dtype, 0) in REAL

    def is_strided(self, array):
        """Whether elements lie at multiples of their size."""
        return True

    def reshape(self, array, shape):
        return array.reshape(shape)

    def fit(self, array, like):
        """Summed over the dimensions along which `like` was repeated, repeated along others, in its type."""
        shape, extra, module = like.shape, array.ndim - like.ndim, self.module
        wide = module.promote_types(array.dtype, module.float32)  # sums of 16 bits are as those of Kiln
        array = array.sum(tuple(range(extra)), dtype=wide) if extra > 0 else array
        along = tuple(d for d in range(array.ndim) if shape[d] == 1 != array.shape[d])
        array = array.sum(along, keepdims=True, dtype=wide) if along else array
        return array if array.shape == shape and array.dtype == like.dtype else (
            module.broadcast_to(array, shape).astype(like.dtype))

    def records(self, arrays):
        """Whether a call is recorded for gradients."""
        return False

    def traces(self):
        """Whether the library follows calls by `trace`, as torch.compile does."""
        return False

    def written(self, array):
        """Says that an array was written in place."""

    def stream(self, device):
        return None

    def guard(self, device):
        """A context in which to launch; None: any."""
        return None

    def on(self, array):
        """A context in which the library computes on the array's device."""
        return contextlib.nullcontext()


class NumPy(Arrays):
    """Arrays of NumPy, on the cpu."""

    def __init__(self, module=None):
        """module: NumPy, or a library with arrays like its own."""
        import numpy
        self.module = module or numpy
        super().__init__(self.module.ndarray, numpy_dtypes())

    def key(self, arrays):
        """All that a plan depends on; None: make one for this call alone."""
        key = []
        for a in arrays:
            if not isinstance(a, self.type) or type(a) not in _kinds:  # it may have a mask
                return None
            key.append((a.dtype, a.shape, a.strides, a.flags.num))
        return tuple(key)

    def prepare(self, array):
        """A scalar of NumPy has no memory of its own."""
        return self.module.asarray(array)

    def index(self, array):
        """That of the device."""
        return -1

    def is_aligned(self, array):
        return array.flags.aligned

    def facts(self, array):
        """The type's number, the shape, the strides in elements, and the index of the device."""
        return (self.code_of(array), array.shape, tuple(step // array.itemsize for step in array.strides),
                self.index(array))

    def is_strided(self, array):
        """A field of records need not lie so."""
        return self.is_aligned(array) and all(step % array.itemsize == 0 for step in array.strides)

    def pointer(self, array):
        return array.__array_interface__["data"][0]

    def maker(self, code, shape, inputs):
        """A function that makes a result, and its arguments, or the number of the input that it takes."""
        return self.module.empty, (shape, self.dtypes[code])

    def ones_like(self, array):
        return self.module.ones_like(array)

    def check_out(self, array):
        if not array.flags.writeable:
            raise ValueError("out is read-only")

    def is_contiguous(self, array):
        return array.flags.c_contiguous and self.is_aligned(array)

    def contiguous(self, array):
        return array if self.is_contiguous(array) else array.copy()


def _torch():
    from ._torch import Torch
    return Torch()


def _cupy():
    from ._cupy import CuPy
    return CuPy()


def _jax():
    from ._jax import JAX
    return JAX()


_LIBRARIES = {"numpy": NumPy, "torch": _torch, "cupy": _cupy, "jax": _jax}
_made = {}   # by library
_kinds = {}  # by type
_lock = threading.Lock()


def is_compiled():
    """Whether torch.compile follows the call."""
    return False


def find_torch():
    """Makes what handles tensors where PyTorch is loaded: torch.compile cannot follow that."""
    if "torch" in sys.modules and "torch" not in _made:
        _make("torch")


def _make(name):
    """How to handle the arrays of a library, which is made once."""
    global is_compiled
    with _lock:
        if name not in _made:
            kind = _LIBRARIES[name]()
            _kinds.update((array_type, kind) for array_type in kind.types)
            if name == "torch":
                is_compiled = kind.is_compiled
            _made[name] = kind
        return _made[name]


def _forget_lock():
    """A thread of the parent of a fork may have held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


def kind_of(array):
    """How to handle an array, by its type. TypeError where no library is known for it."""
    kind = _kinds.get(type(array))
    if kind is None:
        roots = [base.__module__.partition(".")[0].replace("jaxlib", "jax") for base in type(array).__mro__]
        name = next((root for root in roots if root in _LIBRARIES and hasattr(array, "shape")), None)
        if any(base.__name__ == "MaskedArray" for base in type(array).__mro__):
            raise TypeError("masks are not known here: call it on the filled array")
        if name is None:
            raise TypeError(f"expected an array of NumPy, PyTorch, CuPy or JAX, got {type(array).__name__}; a number that changes "
                            "is a scalar, ?name in the text")
        kind = _kinds[type(array)] = _made.get(name) or _make(name)
    return kind
