"""Structs of tensors, of which the library reads a block, and the outputs that an op gives for one."""

import ctypes
import struct
from ctypes import addressof, byref, c_size_t

from ._library import OUTPUTS_MAX, Output, lib, mine, must, session

TENSOR = struct.Struct("@PPiIPP")  # kiln_tensor
WORDS = TENSOR.size // ctypes.sizeof(ctypes.c_size_t)  # of a tensor; the first is the address of its elements


def dense_strides(shape):
    """Those of an array without gaps, in elements."""
    steps, step = [], 1
    for extent in reversed(shape):
        steps.append(step)
        step *= extent
    return tuple(reversed(steps))


def make_block(facts):
    """The structs of tensors as words, without addresses of elements, and what they point to."""
    words, keep = (ctypes.c_size_t * (WORDS * len(facts)))(), []
    for i, (code, shape, strides, device) in enumerate(facts):
        sizes, steps = ((ctypes.c_int64 * len(numbers))(*numbers) for numbers in (shape, strides))
        keep += sizes, steps
        TENSOR.pack_into(words, i * TENSOR.size, 0, session().device(device), code, len(shape), addressof(sizes),
                          addressof(steps))
    return words, keep


def find_outputs(spec, words, count):
    """The types and shapes of the outputs of a spec for a block of inputs."""
    found, number = (Output * OUTPUTS_MAX)(), c_size_t()
    must(lib.kiln_apply_outputs(found, OUTPUTS_MAX, byref(number), session().service, spec, words, count, mine.pointer))
    return [(out.dtype, tuple(out.shape[:out.ndim])) for out in found[:number.value]]


def find_outputs_with_axis(spec, words, count, dims):
    """The types and shapes of the outputs, and their shapes with the axis that the op reduces. dims: of the inputs."""
    outputs = kept = find_outputs(spec, words, count)
    if any(len(shape) < dims for _, shape in outputs):
        kept = find_outputs(spec + b" keep=1", words, count)
    return [(code, shape, with_axis) for (code, shape), (_, with_axis) in zip(outputs, kept)]
