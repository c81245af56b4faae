"""Kiln for Python: kernels from a line of text, on arrays of NumPy, PyTorch, CuPy and JAX.

    blend = kiln.op("gelu(x + b) * gate")
    y = blend(x, b, gate)

docs/python.md is the guide. Any thread may call these functions. A child of fork opens its own service."""

from ._library import Error, lib as _lib
from ._ops import Op, define_op, define_template, op
from ._sources import Function, Module, load_inline

__version__ = _lib.kiln_version().decode()
elementwise = op

__all__ = ["Error", "Function", "Module", "Op", "define_op", "define_template", "elementwise", "load_inline", "op"]
