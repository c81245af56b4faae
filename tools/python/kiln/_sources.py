"""CUDA text: kiln.load_inline compiles it and returns a module of its functions."""

import contextlib
import ctypes
import functools
import os
import re
import sys
import warnings
from ctypes import addressof, c_char_p, c_void_p, sizeof
from typing import Any, Callable, Optional, Sequence, Union

from ._arrays import kind_of
from ._library import (ARG_VALUE, Arg, Grid, Source, as_text, get_function, get_source, lib, mine, must, session,
                       text_bytes)

_HOST_HEADER = re.compile(r'^\s*#\s*include\s*[<"]((?:torch|ATen|c10|pybind11)/[^>"]*)', re.MULTILINE)
_ADVICE = ("Kiln compiles code for the GPU only: leave the C++ wrapper out and launch its kernel from Python, "
           "module.kernel[blocks, threads](array, ..., number)")
_NO_EFFECT = {"extra_cflags": "no C++ is compiled", "extra_ldflags": "nothing is linked",
              "build_directory": "code is kept in Kiln's cache (KILN_CACHE_DIR)",
              **dict.fromkeys(("with_cuda", "is_python_module", "with_pytorch_error_handling", "keep_intermediates",
                               "use_pch", "no_implicit_headers"))}  # nor has leaving these out
_Extent = Union[int, Sequence[int]]  # of a grid or a block
_Texts = Union[str, Sequence[str]]
_INTEGERS = {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64}
_FLOATS = {4: ctypes.c_float, 8: ctypes.c_double}
_CTYPES = (ctypes.Structure, ctypes.Union, ctypes.Array, ctypes._SimpleCData)


def _is_number(argument):
    """Whether it is a number of NumPy's types, such as an element of an array."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(argument, numpy.generic)


def _array_kind(argument):
    if isinstance(argument, (int, float, *_CTYPES)):
        return None
    try:
        return kind_of(argument)
    except TypeError:
        return None


class Function:
    """A __global__ function: f(grid, block, *arguments) or f[grid, block](*arguments). See load_inline."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __getitem__(self, shape: "tuple[Any, Any]") -> "Callable[..., None]":
        return functools.partial(self, *shape)

    def __call__(self, grid: "_Extent", block: "_Extent", *arguments: Any, shared: int = 0, stream: Any = None,
                 cluster: "Optional[_Extent]" = None, cooperative: bool = False) -> None:
        arguments = [argument.item() if _is_number(argument) else argument for argument in arguments]
        kinds = [_array_kind(argument) for argument in arguments]
        kind = next(filter(None, kinds), None)
        index = self._device(arguments, kinds)
        kernel, sizes = self.module._function(index, self.name)
        if len(arguments) != len(sizes):
            raise TypeError(f"{self.name} takes {len(sizes)} arguments, got {len(arguments)}")
        values = [self._value(i, *of) for i, of in enumerate(zip(arguments, kinds, sizes))]
        count = len(values)
        args = (Arg * count)(*((ARG_VALUE, sizeof(value), addressof(value)) for value in values))
        if stream is None and kind:
            stream = kind.stream(index)
        stream = getattr(stream, "cuda_stream", stream)
        grid, block, cluster = ((*n, 1, 1)[:3] if isinstance(n, (tuple, list)) else (n, 1, 1) if n else (0, 0, 0)
                                for n in (grid, block, cluster))
        how = Grid(grid, block, cluster, shared, cooperative)
        guard = kind.guard(index) if kind else None
        with guard() if guard else contextlib.nullcontext():
            must(lib.kiln_launch(kernel, ctypes.byref(how), None, 0, args, count, stream, mine.pointer))
        if kind and kind.finish:
            kind.finish(index)

    def _device(self, arguments, kinds):
        """The device of all arrays; that of the module where there are none."""
        found = [(i, kind.facts(array)[3]) for i, (array, kind) in enumerate(zip(arguments, kinds)) if kind]
        index = found[0][1] if found else self.module._index
        for i, other in found:
            if other < 0:
                raise RuntimeError(f"{self.name} runs on GPUs, and argument {i} is on the cpu")
            if other != index:
                raise RuntimeError(f"argument {i} of {self.name} is on cuda:{other}, expected cuda:{index}")
        return index

    def _value(self, i, argument, kind, size):
        """An argument as a C value of its parameter's size: the compiled code gives no type."""
        if kind:
            return c_void_p(kind.pointer(argument))
        if isinstance(argument, int) and size in _INTEGERS and -(1 << 8 * size - 1) <= argument < 1 << 8 * size:
            return _INTEGERS[size](argument)
        if isinstance(argument, float) and size in _FLOATS:
            return _FLOATS[size](argument)
        if isinstance(argument, _CTYPES):
            return argument
        raise TypeError(f"argument {i} of {self.name} is {size} bytes: expected an array, an int, a float or a ctypes "
                        f"value of that size, got {argument!r}")


class Module:
    """The result of load_inline(): module.name or module["name<float, 4>"] is a Function."""

    def __init__(self, source, keep, index, verbose):
        self._source, self._keep, self._index, self._verbose = source, keep, index, verbose
        self._session, self._programs, self._loaded, self._functions = None, {}, {}, {}

    def __getitem__(self, name: str) -> Function:
        return self._functions.setdefault(name, Function(self, name))

    def __getattr__(self, name: str) -> Function:
        if name.startswith("_"):
            raise AttributeError(f"write module[{name!r}] for a function of that name")
        return self[name]

    def _function(self, index, name):
        """The kernel and the bytes of its parameters, of the service of this process."""
        if self._session is not session():
            self._session, self._programs, self._loaded = session(), {}, {}
        if (index, name) not in self._loaded:
            self._loaded[index, name] = get_function(self._program(index), name)
        return self._loaded[index, name]

    def _program(self, index):
        if index not in self._programs:
            self._programs[index], log = get_source(index, self._source)
            if log and self._verbose:
                print(log)
        return self._programs[index]


def _current_device():
    """PyTorch's current device, where it is loaded; else the first."""
    torch = sys.modules.get("torch")
    return torch.cuda.current_device() if torch is not None and torch.cuda.is_available() else 0


def load_inline(name: str, cuda_sources: "_Texts", functions: "Optional[_Texts]" = None, *, cpp_sources: Any = None,
                extra_cuda_cflags: "Optional[Sequence[str]]" = None, extra_include_paths: "Optional[Sequence[Any]]" = None,
                verbose: bool = False, **others: Any) -> Module:
    """Compiles CUDA text for the current device, or finds it in Kiln's cache, and returns a module of its functions.

    `functions` names __global__ functions, templates as "scale<float, 4>"; None: every extern "C" function. They are
    launched by module.scale(grid, block, *arguments, shared=0, stream=None) or module.scale[grid, block](*arguments).
    Arrays go as pointers, as they lie in memory; an int as an integer and a float as floating point of the parameter's
    size: write 2.0 for a float. Other keywords of torch's function have no effect; C++ is refused."""
    if not isinstance(cuda_sources, (str, list, tuple)):
        raise TypeError(f"cuda_sources is a text or several, got {type(cuda_sources).__name__}")
    text = as_text(cuda_sources) if isinstance(cuda_sources, str) else "\n".join(map(as_text, cuda_sources))
    included = _HOST_HEADER.search(text)
    if cpp_sources or included:
        raise RuntimeError(f"load_inline: {f'{name} includes {included[1]}' if included else 'cpp_sources was given'}. "
                           f"{_ADVICE}")
    for key, value in others.items():
        if key not in _NO_EFFECT:
            raise TypeError(f"load_inline() got an unexpected keyword argument {key!r}")
        if value and _NO_EFFECT[key]:
            warnings.warn(f"load_inline: {key} has no effect: {_NO_EFFECT[key]}", stacklevel=2)
    flags = [flag for flag in extra_cuda_cflags or () if not re.fullmatch("-O[0-3]?", flag)]  # nvcc's, for the host
    source = Source(name=text_bytes(f"{name}.cu"), text=text.encode())
    keep = []
    for field, values in {"function": [functions] if isinstance(functions, str) else functions or (), "option": flags,
                          "include_dir": extra_include_paths or ()}.items():
        keep.append((c_char_p * len(values))(*map(os.fsencode, values)))
        setattr(source, f"{field}s", keep[-1])
        setattr(source, f"{field}_count", len(values))
    module = Module(source, keep, _current_device(), verbose)
    module._program(module._index)
    return module
