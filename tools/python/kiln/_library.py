"""The C library: where it is, its structs and functions, failures, and the service of the process."""

import atexit
import ctypes
import functools
import os
import site
import sys
import threading
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof

try:
    from . import _call  # calls without a line of Python, for some libraries of arrays
except ImportError:  # a Python without the stable ABI, or a wheel that was built without Python's headers
    _call = None

_HERE = os.path.dirname(os.path.abspath(__file__))

# The order of kiln_dtype, and the names that NumPy and PyTorch have for these types.
DTYPES = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "int16", "int32", "int64",
          "uint8", "bool")
REAL = range(1, 7)  # the numbers of those that are real
DIMS_MAX, OUTPUTS_MAX = 32, 8
OK, EINVAL, EOP, EALIGN = 0, -1, -4, -14
ROLE_IN, ROLE_SCALAR = 1, 4
ARG_VALUE = 2


class Error(RuntimeError):
    """A failure of Kiln, with its message and the compiler's log. `status` is the number of a kiln_status."""

    status: int
    log: str

    def __init__(self, message: str, status: int, log: str) -> None:
        super().__init__(f"{message}\n{log}".rstrip())
        self.message, self.status, self.log = message, status, log

    def __reduce__(self):  # a process pool sends it
        return Error, (self.message, self.status, self.log)


def _struct(**fields):
    """A struct of Kiln's API, with its first field, `size`, filled in."""
    made = type("Struct", (ctypes.Structure,), {"_fields_": [("size", c_size_t), *fields.items()]})
    return functools.partial(made, sizeof(made))


_Texts = POINTER(c_char_p)
_Report = _struct(status=c_int, native=c_int, stage=c_char_p, log=c_char_p, message=ctypes.c_char * 512)
_Options = _struct(device=c_char_p, libcuda=c_char_p, nvrtc=c_char_p)  # the first fields are enough, as below
Source = _struct(
    name=c_char_p, text=c_char_p, length=c_size_t, target=c_char_p, functions=_Texts, function_count=c_size_t,
    directory=c_char_p, headers=c_void_p, header_count=c_size_t, include_dirs=_Texts, include_dir_count=c_size_t,
    cuda_headers=c_int, defines=_Texts, define_count=c_size_t, options=_Texts, option_count=c_size_t)
_Request = _struct(spec=c_void_p, source=c_void_p, device=c_void_p)
Grid = _struct(grid=c_uint32 * 3, block=c_uint32 * 3, cluster=c_uint32 * 3, shared_bytes=c_uint32, cooperative=c_int)
_Param = _struct(name=c_char_p, type=c_char_p, role=c_int, bytes=c_uint32, dims=c_uint32, shape=c_char_p * 4,
                 follows_dtype=c_int, in_place=c_int, column=c_int)
_Signature = _struct(sizes=_Texts, size_count=c_size_t, params=POINTER(POINTER(_Param.func)), param_count=c_size_t,
                     grid=c_char_p * 3, counts=c_int)
_KernelInfo = _struct(name=c_char_p, symbol=c_char_p, spec=c_char_p, device=c_char_p, origin=c_int,
                      origin_name=c_char_p, compile_ms=c_double, signature=POINTER(_Signature.func))


class Arg(ctypes.Structure):
    _fields_ = [("kind", c_int), ("bytes", c_uint64), ("data", c_void_p)]


class Output(ctypes.Structure):
    _fields_ = [("dtype", c_int), ("ndim", c_uint32), ("shape", c_int64 * DIMS_MAX)]


def library_path():
    """The file of the library: KILN_LIBRARY, else that of the wheel, else as the loader finds it."""
    beside = os.path.join(_HERE, "lib", "libkiln.so.0.2")
    return os.environ.get("KILN_LIBRARY") or (beside if os.path.exists(beside) else "libkiln.so.0.2")


def _load():
    path = library_path()
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{error}: set KILN_LIBRARY to the path of libkiln.so, or install the wheel") from None
    kinds = {"p": c_void_p, "s": c_char_p, "n": c_uint64}
    for name, parameters in {
            "open": "ppp", "device_open": "ppsp", "spec_parse": "ppsp", "spec_signature": "ppp", "spec_free": "p",
            "get": "pppp", "program_kernel": "ppsp", "kernel_get_info": "pp", "push_wait": "pnppp", "launch": "pppnpnpp", "report_clear": "p",
            "apply": "pspnpnpnpp", "apply_outputs": "pnppspnp", "apply_gradient": "ppspnnp", "apply_parts": "pppsp", "text_free": "p", "sync": "pp", "op_define": "psp",
            "template_define": "psspp"}.items():
        getattr(loaded, "kiln_" + name).argtypes = [kinds[kind] for kind in parameters]
    loaded.kiln_version.restype = c_char_p
    return loaded


def find_nvrtc():
    """NVRTC of NVIDIA's wheels, those that PyTorch brings among them; None: the library searches the system."""
    if os.environ.get("KILN_NVRTC"):
        return None
    places = dict.fromkeys([*sys.path, *site.getsitepackages(), site.getusersitepackages()])
    for place in places:
        for name in ("cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12"):
            path = os.path.join(place, "nvidia", name)
            if os.path.exists(path):
                return path
    return None


class _Mine(threading.local):
    """A report for each thread."""

    def __init__(self):
        self.report = _Report()
        self.pointer = byref(self.report)


lib, mine = _load(), _Mine()


def must(status):
    """Raises the failure in this thread's report, if there is one; returns the compiler's log."""
    message, log = (text.decode(errors="replace") for text in (mine.report.message, mine.report.log or b""))
    lib.kiln_report_clear(mine.pointer)
    if status != OK:
        raise Error(message, status, log)
    return log


class Session:
    """A service and its devices."""

    def __init__(self):
        nvrtc = find_nvrtc()
        self.service, self.devices = c_void_p(), {}
        must(lib.kiln_open(byref(self.service), byref(_Options(nvrtc=nvrtc and nvrtc.encode())), mine.pointer))
        for define in _definitions:
            define(self)
        _use_in_calls(self.service.value)

    def device(self, index):
        """The device of an index as CUDA counts them; -1 is the cpu."""
        if index not in self.devices:
            device, name = c_void_p(), b"cpu" if index < 0 else b"cuda:%d" % index
            must(lib.kiln_device_open(byref(device), self.service, name, mine.pointer))
            self.devices[index] = device.value
        return self.devices[index]


def _use_in_calls(service):
    if _call is not None:
        _call.use(ctypes.cast(lib.kiln_apply, c_void_p).value, service)


_definitions = []  # that a later service, of a child of fork, takes over
_lock = threading.Lock()
_session = None


def session():
    """The session of the process, which lives as long: loaded kernels stay."""
    global _session
    if _session is None:
        with _lock:
            _session = _session or Session()
    return _session


def _forget():
    """In a child of fork the parent's service does not work. Its memory is left alone."""
    global _session, _lock
    _session, _lock = None, threading.Lock()
    _use_in_calls(0)


os.register_at_fork(after_in_child=_forget)


def _wait_for_pushes():
    """The service is never closed: a short program's only push to a remote may be on its way."""
    if _session is not None:
        lib.kiln_push_wait(_session.service, 250, None, None, None)


atexit.register(_wait_for_pushes)


def define(make):
    """Calls make(session) now, and for each later session."""
    make(session())
    _definitions.append(make)


_derived = set()  # texts of gradients, which a later session derives anew


def define_gradient(derive):
    """The text of an op that derive(session) defines, now and for each later session."""
    text = derive(session())
    if text not in _derived:
        _derived.add(text)
        _definitions.append(derive)
    return text


def params(signature):
    return [signature.contents.params[i].contents for i in range(signature.contents.param_count)]


def as_text(text):
    """The text, which is a str and has no NUL: the library's end there."""
    if not isinstance(text, str):
        raise TypeError(f"expected a text, got {type(text).__name__}")
    if "\0" in text:
        raise ValueError("the text has a NUL character")
    return text


def text_bytes(text):
    """A text as the library takes it."""
    return as_text(text).encode()


def spec_params(text):
    """The parameters of the kernel of a spec, and whether its results depend on the numbers of their elements."""
    spec, signature = c_void_p(), POINTER(_Signature.func)()
    must(lib.kiln_spec_parse(byref(spec), session().service, text, mine.pointer))
    try:
        must(lib.kiln_spec_signature(byref(signature), spec, mine.pointer))
        return ([(param.name.decode(), param.role, bool(param.column)) for param in params(signature)],
                bool(signature.contents.counts))
    finally:
        lib.kiln_spec_free(spec)


def parts_of(text):
    """The texts of the calls that a call with reduce= stands for, of bytes; one alone of a text without."""
    first, second = c_void_p(), c_void_p()
    must(lib.kiln_apply_parts(byref(first), byref(second), session().service, text, mine.pointer))
    try:
        return [ctypes.string_at(part.value).decode() for part in (first, second) if part]
    finally:
        lib.kiln_text_free(first)
        lib.kiln_text_free(second)


def calls_of(spec, inputs, scalars):
    """The calls of an op in C, which keep(...) takes plans and run(inputs, numbers) makes; None: there are none."""
    return _call.Calls(spec, inputs, scalars) if _call is not None and inputs > 0 else None


def add_array_type(array_type, *left_to_python):
    """Has calls with arrays of a type made in C, where their library has DLPack's exchange table. See _call.add_type."""
    table = getattr(array_type, "__dlpack_c_exchange_api__", None)
    return _call is not None and table is not None and _call.add_type(array_type, table, *left_to_python)


def get_source(index, source):
    """The program of a source on a device, which stays loaded, and the compiler's log."""
    program, request = c_void_p(), _Request(source=ctypes.addressof(source), device=session().device(index))
    log = must(lib.kiln_get(byref(program), session().service, byref(request), mine.pointer))
    return program, log


def get_function(program, name):
    """A function of a program, and the bytes of its parameters."""
    kernel, info = c_void_p(), _KernelInfo()
    must(lib.kiln_program_kernel(byref(kernel), program, name.encode(), mine.pointer))
    must(lib.kiln_kernel_get_info(kernel, byref(info)))
    return kernel, [param.bytes for param in params(info.signature)]
