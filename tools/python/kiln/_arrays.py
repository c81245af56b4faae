"""Arrays of other libraries: their types, shapes, strides and memory as Kiln takes them."""

import contextlib
import functools

from ._library import DTYPES


class NumPy:
    """Arrays of NumPy, on the cpu. ml_dtypes brings bfloat16 and the types of a byte."""

    def __init__(self):
        import numpy
        self.numpy, self.type = numpy, numpy.ndarray
        named = {}
        for code, name in enumerate(DTYPES, 1):
            with contextlib.suppress(TypeError):  # unknown to NumPy itself
                named[code] = numpy.dtype(name)
        with contextlib.suppress(ImportError):
            import ml_dtypes
            named.update((code, numpy.dtype(getattr(ml_dtypes, name))) for code, name in enumerate(DTYPES, 1)
                         if code not in named)
        self.dtypes, self.codes = named, {dtype: code for code, dtype in named.items()}

    def key(self, arrays):
        """All that a plan depends on; None: make one for this call alone."""
        key = []
        for a in arrays:
            if not isinstance(a, self.type):
                return None
            key.append((a.dtype, a.shape, a.strides, a.flags.num))
        return tuple(key)

    def prepare(self, array):
        """The array whose memory has its values."""
        return array

    def facts(self, array):
        """The type's number, the shape, the strides in elements, and the index of the device."""
        code = self.codes.get(array.dtype)
        if code is None:
            raise TypeError(f"arrays of {array.dtype} are none of {', '.join(map(str, self.codes))}: convert with astype")
        return code, array.shape, tuple(step // array.itemsize for step in array.strides), -1

    def is_strided(self, array):
        """Whether elements lie at multiples of their size, which those of a field of records need not."""
        return array.flags.aligned and all(step % array.itemsize == 0 for step in array.strides)

    def pointer(self, array):
        return array.__array_interface__["data"][0]

    def maker(self, code, shape, inputs):
        """A function of the inputs that makes a result."""
        dtype, empty = self.dtypes[code], self.numpy.empty
        return lambda inputs: empty(shape, dtype)

    def check_out(self, array):
        if not array.flags.writeable:
            raise ValueError("out is read-only")

    def written(self, array):
        pass

    def is_contiguous(self, array):
        return array.flags.c_contiguous and array.flags.aligned

    def contiguous(self, array):
        return array if self.is_contiguous(array) else array.copy()

    def stream(self, device):
        return None

    def guard(self, device):
        """A context in which to launch; None: any."""
        return None


class Torch:
    """Tensors of PyTorch, on the cpu and on CUDA, on torch's current stream."""

    def __init__(self):
        import torch
        self.torch = torch
        self.dtypes = {code: getattr(torch, name) for code, name in enumerate(DTYPES, 1) if hasattr(torch, name)}
        self.codes = {dtype: code for code, dtype in self.dtypes.items()}
        self.type, self.pointer = torch.Tensor, torch.Tensor.data_ptr
        # The function that torch's compiled code calls: cheaper than current_stream(index).cuda_stream.
        self.raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
            lambda index: torch.cuda.current_stream(index).cuda_stream)
        self.several = torch.cuda.device_count() > 1

    def key(self, tensors):
        key = []
        for t in tensors:
            if not isinstance(t, self.type) or t.requires_grad or t.is_neg():
                return None
            key.append((t.dtype, t.shape, t.stride(), t.get_device()))
        return tuple(key)

    def prepare(self, tensor):
        """The tensor, or a copy of a lazily negated view, whose memory holds other values."""
        if tensor.requires_grad and self.torch.is_grad_enabled():
            raise RuntimeError("Kiln's ops have no gradient: call them under torch.no_grad() or with x.detach()")
        return tensor.resolve_neg() if tensor.is_neg() else tensor

    def facts(self, tensor):
        code = self.codes.get(tensor.dtype)
        if code is None or tensor.layout != self.torch.strided or tensor.device.type not in ("cpu", "cuda"):
            raise TypeError(f"tensors of {tensor.dtype} ({tensor.layout}) on {tensor.device} are none of dense ones of "
                            f"{', '.join(DTYPES)} on cpu or cuda")
        return code, tuple(tensor.shape), tuple(tensor.stride()), tensor.get_device()

    def maker(self, code, shape, inputs):
        dtype, empty_like = self.dtypes[code], self.torch.empty_like
        for i, t in enumerate(inputs):
            if t.shape == shape and t.is_contiguous():  # cheaper than to say what is wanted
                return (lambda inputs: empty_like(inputs[i])) if t.dtype == dtype else (
                    lambda inputs: empty_like(inputs[i], dtype=dtype))
        return lambda inputs: inputs[0].new_empty(shape, dtype=dtype)

    def check_out(self, tensor):
        if tensor.requires_grad or tensor.is_neg():
            raise ValueError("out has a gradient, or is a negated view")

    def written(self, tensor):
        if not tensor.is_inference():
            self.torch.autograd.graph.increment_version(tensor)  # as every in-place operation of torch does

    def is_strided(self, tensor):
        return True

    def is_contiguous(self, tensor):
        return tensor.is_contiguous()

    def contiguous(self, tensor):
        return tensor.contiguous()

    def stream(self, device):
        return None if device < 0 else self.raw_stream(device)

    def guard(self, device):
        """The default stream is that of the current device."""
        return functools.partial(self.torch.cuda.device, device) if self.several and device >= 0 else None


_LIBRARIES = {"numpy": NumPy, "torch": Torch}
_made = {}   # by library
_kinds = {}  # by type


def kind_of(array):
    """How to handle an array, by its type. TypeError where no library is known for it."""
    kind = _kinds.get(type(array))
    if kind is None:
        roots = [base.__module__.partition(".")[0] for base in type(array).__mro__]
        name = next((root for root in roots if root in _LIBRARIES and hasattr(array, "shape")), None)
        if name is None:
            raise TypeError(f"expected an array of NumPy or PyTorch, got {type(array).__name__}; a number that changes "
                            "is a scalar, ?name in the text")
        if name not in _made:
            _made[name] = _LIBRARIES[name]()
        kind = _kinds[type(array)] = _made[name]
    return kind
