"""Kiln for PyTorch: element-wise operations and CUDA text on tensors, with no build step.

    hardtanh = elementwise("hardtanh(-1,1)")
    y = hardtanh(x)                                       # CUDA or CPU, any shape, on torch's current stream

    module = load_inline("scale", cuda_sources=TEXT, functions=["scale"])
    module.scale[blocks, 256](y, x, 2.0, x.numel())

One file: copy it beside your program. libkiln.so is looked for in KILN_LIBRARY, beside this file, and by the loader.
README.md beside it is the guide. Any thread may call these functions."""

import contextlib
import ctypes
import functools
import os
import re
import struct
import threading
import warnings
from ctypes import addressof, byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p, sizeof

import torch

_NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3",
          "float8_e5m2": "f8e5m2", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
          "bool": "bool"}
DTYPES = {getattr(torch, name): dtype for name, dtype in _NAMES.items() if hasattr(torch, name)}
_OF = {name: dtype for dtype, name in DTYPES.items()}
_POINTERS = ("", "P", "PP", "PPP")  # for struct.pack
_NO_GUARD = contextlib.nullcontext()


def _struct(**fields):
    """A struct of Kiln's API, with its first field, `size`, filled in."""
    made = type("Struct", (ctypes.Structure,), {"_fields_": [("size", c_size_t), *fields.items()]})
    return functools.partial(made, sizeof(made))


_Texts = ctypes.POINTER(c_char_p)
_Report = _struct(status=c_int, native=c_int, stage=c_char_p, log=c_char_p, message=ctypes.c_char * 512)
_Options = _struct(device=c_char_p, libcuda=c_char_p, nvrtc=c_char_p)  # the first fields are enough
_Source = _struct(
    name=c_char_p, text=c_char_p, length=c_size_t, target=c_char_p, functions=_Texts, function_count=c_size_t,
    directory=c_char_p, headers=c_void_p, header_count=c_size_t, include_dirs=_Texts, include_dir_count=c_size_t,
    cuda_headers=c_int, defines=_Texts, define_count=c_size_t, options=_Texts, option_count=c_size_t)
_Request = _struct(spec=c_void_p, source=c_void_p, device=c_void_p)  # the first fields are enough
_Grid = _struct(grid=c_uint32 * 3, block=c_uint32 * 3, cluster=c_uint32 * 3, shared_bytes=c_uint32, cooperative=c_int)
_Arg = type("Arg", (ctypes.Structure,), {"_fields_": [("kind", c_int), ("bytes", c_uint64), ("data", c_void_p)]})
_VALUE, _IN, _OUT = 2, 1, 2  # KILN_ARG_VALUE, KILN_ROLE_IN, KILN_ROLE_OUT
_Param = _struct(name=c_char_p, type=c_char_p, role=c_int, bytes=c_uint32)  # the first fields, as of the next two
_Signature = _struct(sizes=_Texts, size_count=c_size_t, params=ctypes.POINTER(ctypes.POINTER(_Param.func)),
                     param_count=c_size_t)
_KernelInfo = _struct(name=c_char_p, symbol=c_char_p, spec=c_char_p, device=c_char_p, origin=c_int,
                      origin_name=c_char_p, compile_ms=ctypes.c_double, signature=ctypes.POINTER(_Signature.func))


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    beside = (os.path.join(here, name) for name in ("libkiln.so", "libkiln.so.0.2"))
    path = os.environ.get("KILN_LIBRARY") or next(filter(os.path.exists, beside), "libkiln.so.0.2")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{error}: set KILN_LIBRARY to the path of libkiln.so, or put it into {here}") from None
    kinds = {"p": c_void_p, "s": c_char_p, "n": c_uint64, "u": c_uint32}
    for name, parameters in {
            "open": "ppp", "device_open": "ppsp", "spec_parse": "ppsp", "spec_signature": "ppp", "spec_free": "p",
            "get": "pppp", "program_kernel": "ppsp", "program_release": "p", "kernel_get_info": "pp",
            "launch": "pppnpnpp", "launch_n": "pnpnpnpp", "report_clear": "p"}.items():
        getattr(library, "kiln_" + name).argtypes = [kinds[kind] for kind in parameters]
    return library


class _Mine(threading.local):
    """A report for each thread."""

    def __init__(self):
        self.report = _Report()
        self.pointer = byref(self.report)


def _must(status):
    """Raises the failure in this thread's report, if there is one; returns the compiler's log."""
    message, log = (text.decode(errors="replace") for text in (_mine.report.message, _mine.report.log or b""))
    _lib.kiln_report_clear(_mine.pointer)
    if status != 0:
        raise RuntimeError(f"kiln: {message}\n{log}".rstrip())
    return log


def _open():
    packages = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__)))
    wheels = (os.path.join(packages, "nvidia", path) for path in
              ("cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12"))
    nvrtc = None if os.environ.get("KILN_NVRTC") else next(filter(os.path.exists, wheels), None)  # torch's own
    service = c_void_p()
    _must(_lib.kiln_open(byref(service), byref(_Options(nvrtc=nvrtc and nvrtc.encode())), _mine.pointer))
    return service


_lib, _mine = _load(), _Mine()
_launch = _lib.kiln_launch_n
_service = _open()  # for the whole process: loaded kernels stay


def _device(index):
    """The device of an index as torch counts them; -1 is the cpu."""
    device, name = c_void_p(), b"cpu" if index < 0 else b"cuda:%d" % index
    _must(_lib.kiln_device_open(byref(device), _service, name, _mine.pointer))
    return device


def _params(signature):
    return [signature.contents.params[i].contents for i in range(signature.contents.param_count)]


def _spec_params(spec):
    signature = ctypes.POINTER(_Signature.func)()
    _must(_lib.kiln_spec_signature(byref(signature), spec, _mine.pointer))
    return _params(signature)


def _get(index, **wanted):
    """The program of a spec or a source on a device, and the compiler's log."""
    program, request = c_void_p(), _Request(device=_device(index), **wanted)
    log = _must(_lib.kiln_get(byref(program), _service, byref(request), _mine.pointer))
    return program, log


def _kernel(program, name):
    """A kernel of a program, with a reference that is never given back."""
    kernel = c_void_p()
    _must(_lib.kiln_program_kernel(byref(kernel), program, name, _mine.pointer))
    return kernel


# The function that torch's compiled code calls: cheaper than current_stream(index).cuda_stream.
_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda index: torch.cuda.current_stream(index).cuda_stream)

# ---- Element-wise operations ----------------------------------------------------------------------------------------

class Elementwise:
    """f(x[, y[, z]], out=None): computes an op, "hardsigmoid", or an expression of ops, "mul(hardsigmoid(x),y)".

    docs/ops.md lists the ops, docs/spec.md has the grammar; other fields of a spec, `block=256`, may follow. The first
    call for a dtype and device finds the kernel in Kiln's cache or compiles it."""

    def __init__(self, op):
        self.op = op
        self._kernels = {}  # by dtype and device: (kernel, index of the device, whether there are several, result's dtype)
        spec = self._parse("")
        try:
            self.inputs = sum(param.role == _IN for param in _spec_params(spec))
        finally:
            _lib.kiln_spec_free(spec)

    def __repr__(self):
        return f"elementwise({self.op!r})"

    def __call__(self, *inputs, out=None):
        if len(inputs) != self.inputs:
            raise TypeError(f"{self} takes {self.inputs} tensors, got {len(inputs)}")
        x = inputs[0]
        kernel, index, several, dtype = self._kernels.get((x.dtype, x.device)) or self._get(x)
        if len(inputs) > 1 or out is not None:
            inputs = self._alike(inputs, out, dtype)
        arrays = []
        for t in inputs:
            if t.requires_grad and torch.is_grad_enabled():
                raise RuntimeError(f"{self} has no gradient: call it under torch.no_grad() or with x.detach()")
            if not t.is_contiguous() or t.is_neg():  # a lazily negated view holds other values than its memory
                t = t.resolve_neg().contiguous()
            arrays.append(t)
        result = out if out is not None and out.is_contiguous() else torch.empty_like(arrays[0], dtype=dtype)
        pointers = struct.pack(_POINTERS[len(arrays)], *map(torch.Tensor.data_ptr, arrays))
        stream = None if index < 0 else _stream(index)
        with torch.cuda.device(index) if several else _NO_GUARD:  # the default stream is that of the current device
            status = _launch(kernel, result.numel(), struct.pack("@P", result.data_ptr()), 1, pointers, len(arrays),
                             stream, _mine.pointer)
        if status != 0:
            _must(status)
        if out is None:
            return result
        if result is out and not out.is_inference():
            torch.autograd.graph.increment_version(out)  # as every in-place operation of torch does
        return out if result is out else out.copy_(result)

    def _parse(self, fields):
        spec = c_void_p()
        text = f"op={self.op} template=elementwise {fields}"
        _must(_lib.kiln_spec_parse(byref(spec), _service, text.encode(), _mine.pointer))
        return spec

    def _get(self, x):
        """Finds or compiles the kernel for tensors such as x."""
        if x.device.type not in ("cpu", "cuda") or x.layout != torch.strided or x.dtype not in DTYPES:
            raise RuntimeError(f"{self} takes dense tensors of {', '.join(_NAMES)} on cpu or cuda, "
                               f"got {x.dtype} ({x.layout}) on {x.device}")
        index, spec = x.get_device(), self._parse(f"dtype={DTYPES[x.dtype]}")
        try:
            program, _ = _get(index, spec=spec)
            result = next(_OF[param.type.decode()] for param in _spec_params(spec) if param.role == _OUT)
        finally:
            _lib.kiln_spec_free(spec)
        kernel = _kernel(program, None)
        _lib.kiln_program_release(program)
        several = index >= 0 and torch.cuda.device_count() > 1
        return self._kernels.setdefault((x.dtype, x.device), (kernel, index, several, result))

    def _alike(self, inputs, out, result):
        """Broadcasts; refuses tensors that differ from the first in dtype or device, and `out` of another dtype than the
        result."""
        x = inputs[0]
        for t in inputs[1:]:
            if t.dtype != x.dtype or t.device != x.device:
                raise RuntimeError(f"{self} takes tensors of one dtype and device, got {x.dtype} on {x.device} and "
                                   f"{t.dtype} on {t.device}")
        if out is not None and (out.dtype != result or out.device != x.device):
            raise RuntimeError(f"{self} of {x.dtype} gives {result} on {x.device}, and out is {out.dtype} on {out.device}")
        if any([t.shape != x.shape for t in inputs]):
            inputs = torch.broadcast_tensors(*inputs)
        if out is not None and (out.shape != inputs[0].shape or out.requires_grad or out.is_neg()):
            raise RuntimeError(f"{self}: out has shape {tuple(out.shape)} or a gradient, expected "
                               f"{tuple(inputs[0].shape)} and none")
        return inputs


elementwise = functools.lru_cache(maxsize=None)(Elementwise)

# ---- CUDA text ------------------------------------------------------------------------------------------------------

_HOST_HEADER = re.compile(r'^\s*#\s*include\s*[<"]((?:torch|ATen|c10|pybind11)/[^>"]*)', re.MULTILINE)
_ADVICE = ("Kiln compiles code for the GPU only: leave the C++ wrapper out and launch its kernel from Python, "
           "module.kernel[blocks, threads](tensor, ..., number)")
_NO_EFFECT = {"extra_cflags": "no C++ is compiled", "extra_ldflags": "nothing is linked",
              "build_directory": "code is kept in Kiln's cache (KILN_CACHE_DIR)",
              **dict.fromkeys(("with_cuda", "is_python_module", "with_pytorch_error_handling", "keep_intermediates",
                               "use_pch", "no_implicit_headers"))}  # nor has leaving these out
_INTEGERS = {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64}
_FLOATS = {4: ctypes.c_float, 8: ctypes.c_double}


class Function:
    """A __global__ function: f(grid, block, *arguments) or f[grid, block](*arguments). See load_inline."""

    def __init__(self, module, name):
        self.module, self.name, self._loaded = module, name, {}

    def __getitem__(self, shape):
        return functools.partial(self, *shape)

    def __call__(self, grid, block, *arguments, shared=0, stream=None, cluster=None, cooperative=False):
        index = next((a.get_device() for a in arguments if isinstance(a, torch.Tensor)), None)
        index = torch.cuda.current_device() if index is None else index
        kernel, sizes = self._loaded.get(index) or self._load(index)
        if len(arguments) != len(sizes):
            raise TypeError(f"{self.name} takes {len(sizes)} arguments, got {len(arguments)}")
        values = [self._value(i, *of, index) for i, of in enumerate(zip(arguments, sizes))]
        count = len(values)
        args = (_Arg * count)(*((_VALUE, sizeof(value), addressof(value)) for value in values))
        stream = _stream(index) if stream is None else getattr(stream, "cuda_stream", stream)
        grid, block, cluster = ((*n, 1, 1)[:3] if isinstance(n, (tuple, list)) else (n, 1, 1) if n else (0, 0, 0)
                                for n in (grid, block, cluster))
        how = _Grid(grid, block, cluster, shared, cooperative)
        with torch.cuda.device(index):  # the default stream is that of the current device
            _must(_lib.kiln_launch(kernel, byref(how), None, 0, args, count, stream, _mine.pointer))

    def _load(self, index):
        if index < 0:
            raise RuntimeError(f"{self.name} runs on GPUs, got a tensor on the cpu: move it with .cuda()")
        kernel, info = _kernel(self.module._program(index), self.name.encode()), _KernelInfo()
        _must(_lib.kiln_kernel_get_info(kernel, byref(info)))
        sizes = [param.bytes for param in _params(info.signature)]
        return self._loaded.setdefault(index, (kernel, sizes))

    def _value(self, i, argument, size, index):
        """An argument as a C value of its parameter's size: the compiled code gives no type."""
        if isinstance(argument, torch.Tensor):
            if argument.get_device() != index:
                raise RuntimeError(f"argument {i} of {self.name} is on {argument.device}, expected cuda:{index}")
            return c_void_p(argument.data_ptr())
        if isinstance(argument, int) and size in _INTEGERS and -(1 << 8 * size - 1) <= argument < 1 << 8 * size:
            return _INTEGERS[size](argument)
        if isinstance(argument, float) and size in _FLOATS:
            return _FLOATS[size](argument)
        if isinstance(argument, (ctypes.Structure, ctypes.Union, ctypes.Array, ctypes._SimpleCData)):
            return argument
        raise TypeError(f"argument {i} of {self.name} is {size} bytes: expected a tensor, an int, a float or a ctypes "
                        f"value of that size, got {argument!r}")


class Module:
    """The result of load_inline(): module.name or module["name<float, 4>"] is a Function."""

    def __init__(self, source, verbose):
        self._source, self._verbose, self._programs, self._functions = source, verbose, {}, {}

    def __getitem__(self, name):
        return self._functions.setdefault(name, Function(self, name))

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(f"write module[{name!r}] for a function of that name")
        return self[name]

    def _program(self, index):
        if index not in self._programs:
            self._programs[index], log = _get(index, source=addressof(self._source))
            if log and self._verbose:
                print(log)
        return self._programs[index]


def load_inline(name, cuda_sources, functions=None, *, cpp_sources=None, extra_cuda_cflags=None,
                extra_include_paths=None, verbose=False, **others):
    """Compiles CUDA text for the current device, or finds it in Kiln's cache, and returns a module of its functions.

    `functions` names __global__ functions, templates as "scale<float, 4>"; None: every extern "C" function. They are
    launched by module.scale(grid, block, *arguments, shared=0, stream=None) or module.scale[grid, block](*arguments).
    Tensors go as pointers, as they lie in memory; an int as an integer and a float as floating point of the parameter's
    size: write 2.0 for a float. Other keywords of torch's function have no effect; C++ is refused."""
    text = cuda_sources if isinstance(cuda_sources, str) else "\n".join(cuda_sources)
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
    source = _Source(name=f"{name}.cu".encode(), text=text.encode())
    for field, values in {"function": [functions] if isinstance(functions, str) else functions or (), "option": flags,
                          "include_dir": extra_include_paths or ()}.items():
        setattr(source, f"{field}s", (c_char_p * len(values))(*map(os.fsencode, values)))
        setattr(source, f"{field}_count", len(values))
    module = Module(source, verbose)
    module._program(torch.cuda.current_device() if torch.cuda.is_available() else 0)
    return module
