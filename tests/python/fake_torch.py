"""As much of PyTorch as the Python module needs, on NumPy arrays, for machines that have neither
PyTorch nor a GPU.

The tensors of its GPUs lie in host memory. `cuda.bind` is called with the number of a device that becomes current."""

import contextlib
import types

import numpy as np

from fake_devices import Devices
from fake_exchange import make_table

float32, float64, float16, bfloat16, int32, bool, complex64 = (
    "float32", "float64", "float16", "bfloat16", "int32", "bool", "complex64")
strided, contiguous_format = "strided", "C"
_STORAGE = {float32: np.float32, float64: np.float64, float16: np.float16, bfloat16: np.uint16, int32: np.int32,
            bool: np.bool_, complex64: np.complex64}
_grad = [True]


class Device(str):
    @property
    def type(self):
        return self.partition(":")[0]


class Tensor:
    __module__ = "torch"
    layout = strided

    def __init__(self, array, dtype=float32, device="cpu", requires_grad=False, negated=False):
        self.array, self.dtype, self.device = np.asarray(array, dtype=_STORAGE[dtype]), dtype, Device(device)
        self.requires_grad, self.negated, self._version = requires_grad, negated, 0

    def _like(self, array):
        return Tensor(array, self.dtype, self.device)

    @property
    def shape(self):
        return self.array.shape

    def numel(self):
        return self.array.size

    def data_ptr(self):
        return self.array.ctypes.data

    def get_device(self):
        return int(self.device.partition(":")[2] or -1)

    def is_contiguous(self):
        return self.array.flags.c_contiguous

    @property
    def is_cuda(self):
        return self.device.type == "cuda"

    def is_floating_point(self):
        return self.array.dtype.kind == "f" or self.dtype == bfloat16

    def dim(self):
        return self.array.ndim

    def reshape(self, shape):
        return self._like(self.array.reshape(shape))

    def sum(self, along, keepdim):
        return self._like(self.array.sum(tuple(along), keepdims=keepdim))

    def expand(self, shape):
        return self._like(np.broadcast_to(self.array, shape))

    def to(self, dtype):
        return self if dtype == self.dtype else Tensor(self.array, dtype, self.device)

    def __getitem__(self, index):
        return self._like(self.array[index])

    def __iter__(self):
        return map(self._like, self.array)

    def stride(self):
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def new_empty(self, shape, dtype):
        return Tensor(np.full(shape, 0x5A, dtype=_STORAGE[dtype]), dtype, self.device)

    def contiguous(self):
        return self._like(np.ascontiguousarray(self.array).reshape(self.shape))

    def element_size(self):
        return self.array.itemsize

    def clone(self, memory_format):
        return self._like(self.array.copy(memory_format))

    def is_neg(self):
        return self.negated

    def resolve_neg(self):
        return self._like(-self.array) if self.negated else self

    def is_inference(self):
        return False

    def copy_(self, other):
        self.array[...] = other.array
        return self


def empty_like(tensor, dtype=None):
    dtype = dtype or tensor.dtype
    return Tensor(np.full(tensor.shape, 0x5A, dtype=_STORAGE[dtype]), dtype, tensor.device)


def randn(*shape, device="cpu"):
    return Tensor(np.random.default_rng(1).standard_normal(shape), float32, device)


def broadcast_tensors(*tensors):
    return [t._like(array) for t, array in zip(tensors, np.broadcast_arrays(*[t.array for t in tensors]))]


def is_grad_enabled():
    return _grad[0]


@contextlib.contextmanager
def no_grad():
    _grad[0] = False
    yield
    _grad[0] = True


def _increment_version(tensor):
    tensor._version += 1


class Function:
    """Records a call: grad_fn of its result calls backward."""

    @classmethod
    def apply(cls, *arguments):
        context = types.SimpleNamespace(needs_input_grad=[getattr(a, "requires_grad", False) for a in arguments],
                                        mark_non_differentiable=lambda *tensors: None)
        context.save_for_backward = lambda *tensors: setattr(context, "saved_tensors", tensors)
        result = cls.forward(*arguments)
        cls.setup_context(context, arguments, result)
        result.requires_grad, result.grad_fn = True, lambda *grads: cls.backward(context, *grads)
        return result


autograd = types.SimpleNamespace(graph=types.SimpleNamespace(increment_version=_increment_version), Function=Function,
                                 forward_ad=types.SimpleNamespace(_current_level=-1))


class _Cuda(Devices):
    def current_device(self):
        return self.current

    def device_count(self):
        return self.devices

    def is_available(self):
        return True

    def current_stream(self, index):
        return types.SimpleNamespace(cuda_stream=self.streams[index])


cuda = _Cuda()
Tensor.__dlpack_c_exchange_api__, exchanged = make_table(cuda)
nn = types.SimpleNamespace(Parameter=type("Parameter", (Tensor,), {}))

made_strided = []  # the shapes


def _empty_strided_cpu(shape, strides, dtype):
    tensor = Tensor(np.full(shape, 0x5A, dtype=_STORAGE[dtype]), dtype)
    assert tensor.stride() == strides or tensor.numel() <= 1
    made_strided.append(shape)
    return tensor


_C = types.SimpleNamespace(_is_tracing=lambda: False, _dynamo=types.SimpleNamespace(
    guards=types.SimpleNamespace(_empty_strided_cpu=_empty_strided_cpu)))
