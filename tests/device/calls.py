"""kiln_apply and kiln_call on tensors of PyTorch with everything at hand, so that a call costs no more than the library's part.

The module is that of PYTHONPATH, else that of this tree; KILN_LIBRARY names the library."""

import os
import sys
from ctypes import addressof, byref, c_char_p, c_double, c_uint64, c_void_p

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "python"))

import torch  # noqa: E402
from kiln._arrays import kind_of  # noqa: E402
from kiln._blocks import TENSOR, WORDS, make_block  # noqa: E402
from kiln._library import _Request, lib, mine, must, session  # noqa: E402

lib.kiln_apply_request.argtypes = [c_void_p, c_void_p, c_void_p, c_char_p, c_void_p, c_uint64, c_void_p, c_uint64, c_void_p]
lib.kiln_call.argtypes = [c_void_p, c_char_p, c_uint64, c_void_p, c_uint64, c_void_p, c_uint64, c_void_p, c_void_p]
lib.kiln_spec_field.argtypes = [c_void_p, c_char_p]
lib.kiln_spec_field.restype = c_char_p

NAMES = {getattr(torch, long): name for long, name in {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
    "bool": "bool"}.items()}


class Apply:
    """A call of kiln_apply."""

    def __init__(self, text, outs, ins, scalars=()):
        kind = kind_of(outs[0])
        self.text, self.tensors, self.out_count, self.in_count = text.encode(), (*outs, *ins), len(outs), len(ins)
        self.words, self.keep = make_block([kind.facts(t) for t in self.tensors])
        for k, t in enumerate(self.tensors):
            self.words[k * WORDS] = t.data_ptr()
        self.outs = addressof(self.words)
        self.ins = self.outs + self.out_count * TENSOR.size
        self.scalars, self.scalar_count = (c_double * len(scalars))(*scalars), len(scalars)
        self.stream = kind.stream(outs[0].get_device())

    def __call__(self):
        must(lib.kiln_apply(session().service, self.text, self.outs, self.out_count, self.ins, self.in_count, self.scalars,
                            self.scalar_count, self.stream, mine.pointer))

    def cast(self):
        """The type that the result would have without that of its tensor; "" for the same."""
        spec, request = c_void_p(), _Request()
        must(lib.kiln_apply_request(byref(spec), byref(request), session().service, self.text, self.outs, self.out_count,
                                    self.ins, self.in_count, mine.pointer))
        try:
            return lib.kiln_spec_field(spec, b"out").decode()
        finally:
            lib.kiln_spec_free(spec)


def call_spec(text, out, *ins):
    """Launches the kernel of a whole spec on the default device, in the current stream of the tensors."""
    arrays = [(c_void_p * len(tensors))(*(t.data_ptr() for t in tensors)) for tensors in ((out,), ins)]
    must(lib.kiln_call(session().service, text.encode(), out.numel(), arrays[0], 1, arrays[1], len(ins),
                       kind_of(out).stream(out.get_device()), mine.pointer))
