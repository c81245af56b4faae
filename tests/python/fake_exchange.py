"""DLPack's exchange table for the tensors of fake_torch.py, in ctypes: for Tensor.__dlpack_c_exchange_api__."""

import ctypes
from ctypes import POINTER, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object


class View(ctypes.Structure):  # DLTensor
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


Read = ctypes.CFUNCTYPE(c_int, py_object, POINTER(View))
CurrentStream = ctypes.CFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))


class Table(ctypes.Structure):  # DLPackExchangeAPI
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("older", c_void_p), ("unused", c_void_p * 3), ("read", Read),
                ("current_stream", CurrentStream)]


CODES = {"float": 2, "int": 0, "bfloat": 4, "bool": 6, "complex": 5}


def make_table(cuda):
    """A capsule with the table, and a list of the types of the tensors that were read."""
    reads = []

    def read(tensor, out):
        reads.append(tensor.dtype)
        if tensor.device.type not in ("cpu", "cuda"):
            return -1
        numbers = (c_int64 * len(tensor.shape))
        if not hasattr(tensor, "kept"):  # for the life of the tensor
            tensor.kept = numbers(*tensor.shape), numbers(*tensor.stride())
        view, name = out.contents, tensor.dtype.rstrip("0123456789")
        # Half of the address as an offset, as DLPack has it for the buffers of some devices.
        view.data, view.byte_offset = tensor.data_ptr() // 2, tensor.data_ptr() - tensor.data_ptr() // 2
        view.device_type, view.device_id = (1, 0) if tensor.device.type == "cpu" else (2, tensor.get_device())
        view.ndim, view.code, view.bits, view.lanes = len(tensor.shape), CODES[name], 8 * tensor.array.itemsize, 1
        view.shape, view.strides = (ctypes.cast(kept, POINTER(c_int64)) for kept in tensor.kept)
        return 0

    def current_stream(device_type, index, out):
        out[0] = cuda.streams[index] if device_type == 2 else None
        return 0

    table = Table(1, 3, None, (c_void_p * 3)(), Read(read), CurrentStream(current_stream))
    later = Table(2, 0, ctypes.addressof(table))  # of which only the head may be read
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = py_object, (c_void_p, ctypes.c_char_p, c_void_p)
    name = b"dlpack_exchange_api"
    capsule = make(ctypes.addressof(later), name, None)
    make_table.kept = getattr(make_table, "kept", []) + [(table, later, name)]
    return capsule, reads
