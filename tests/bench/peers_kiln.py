"""The few calls of libkiln that the benchmark needs, through ctypes."""
import ctypes
import os
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p

LEFT_OUT = ("KILN_PACKS", "KILN_SHARED_DIR", "KILN_RECORD", "KILN_STRICT")


class Report(Structure):
    _fields_ = [("size", c_size_t), ("status", c_int), ("native", c_int), ("stage", c_char_p),
                ("log", c_void_p), ("message", c_char * 512)]


class Work(Structure):
    _fields_ = [("size", c_size_t), ("elements", c_uint64), ("sizes", c_void_p), ("size_count", c_size_t),
                ("args", c_void_p), ("arg_count", c_size_t), ("device", c_void_p), ("hot", c_int)]


class TuneOptions(Structure):
    _fields_ = [("size", c_size_t), ("work", POINTER(Work)), ("budget_s", c_double), ("tolerance", c_double)]


class VariantResult(Structure):
    _fields_ = [("size", c_size_t), ("spec", c_char_p), ("verdict", c_int), ("verdict_name", c_char_p),
                ("problem", c_char_p), ("samples", c_uint64), ("median_ms", c_double), ("ratio", c_double),
                ("low", c_double), ("high", c_double), ("ceiling_ratio", c_double), ("registers", c_int),
                ("local_bytes", c_int)]


class TuningInfo(Structure):
    _fields_ = [("size", c_size_t), ("device", c_char_p), ("elements", c_uint64), ("bytes", c_uint64),
                ("variants", c_uint64), ("impossible", c_uint64), ("waiting", c_uint64), ("verified", c_uint64),
                ("rejected", c_uint64), ("rounds", c_uint64), ("samples", c_uint64), ("default_ms", c_double),
                ("ceiling_ms", c_double), ("regret", c_double), ("seconds", c_double), ("end", c_char_p),
                ("verified_by", c_char_p), ("wisdom", c_char_p), ("not_learnt", c_char_p),
                ("results", POINTER(POINTER(VariantResult))), ("result_count", c_size_t)]


class KilnError(Exception):
    pass


class Kiln:
    """A service with a store of its own and nothing else to read from. `device` is "cuda:0" or "cpu"."""

    def __init__(self, library, device, cache_dir):
        for name in LEFT_OUT:
            os.environ.pop(name, None)
        os.environ["KILN_CACHE_DIR"] = cache_dir
        os.environ["KILN_DEVICE"] = device
        self.lib = ctypes.CDLL(library)
        self.lib.kiln_status_name.restype = c_char_p
        self.lib.kiln_version.restype = c_char_p
        self.lib.kiln_launch_n.argtypes = [c_void_p, c_uint64, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p,
                                           c_void_p]
        self.lib.kiln_spec_free.argtypes = self.lib.kiln_kernel_release.argtypes = [c_void_p]
        self.lib.kiln_tuning_free.argtypes = self.lib.kiln_close.argtypes = [c_void_p]
        self.report = Report(size=ctypes.sizeof(Report))
        self.service = c_void_p()
        self.check(self.lib.kiln_open(byref(self.service), None, byref(self.report)), "kiln_open")
        self.version = self.lib.kiln_version().decode()

    def check(self, status, what):
        if status != 0:
            name = self.lib.kiln_status_name(status).decode()
            raise KilnError(f"{what}: {name}: {self.report.message.decode(errors='replace')}")

    def spec(self, text):
        spec = c_void_p()
        self.check(self.lib.kiln_spec_parse(byref(spec), self.service, text.encode(), byref(self.report)), text)
        return spec

    def get(self, text):
        """A loaded kernel, which the service keeps."""
        spec, kernel = self.spec(text), c_void_p()
        status = self.lib.kiln_get_kernel(byref(kernel), self.service, spec, byref(self.report))
        self.lib.kiln_spec_free(spec)
        self.check(status, text)
        return kernel

    def tune(self, text, elements, budget, tolerance, hot):
        """The fastest variant: its spec, every field set, and how it was found."""
        spec, tuning = self.spec(text), c_void_p()
        work = Work(size=ctypes.sizeof(Work), elements=elements, hot=hot)
        options = TuneOptions(size=ctypes.sizeof(TuneOptions), work=ctypes.pointer(work), budget_s=budget,
                              tolerance=tolerance)
        status = self.lib.kiln_tune(byref(tuning), self.service, spec, byref(options), byref(self.report))
        self.lib.kiln_spec_free(spec)
        self.check(status, f"tuning {text}")
        info = TuningInfo(size=ctypes.sizeof(TuningInfo))
        self.check(self.lib.kiln_tuning_get_info(tuning, byref(info)), "kiln_tuning_get_info")
        best = info.results[0].contents
        found = {"spec": best.spec.decode(), "seconds": info.seconds, "end": info.end.decode(), "variants": info.variants,
                 "out": info.rejected, "to_default": [best.ratio, best.low, best.high]}
        self.lib.kiln_tuning_free(tuning)
        return found

    def launcher(self, kernel, out, inputs, stream):
        """A function that launches once. `stream` is a number, 0 for the default stream."""
        pointers = (c_void_p * 3)(*[t.data_ptr() for t in inputs])
        outs, count = (c_void_p * 1)(out.data_ptr()), len(inputs)
        n, handle = out.numel(), stream or None
        call = self.lib.kiln_launch_n

        def launch(pointers=pointers):
            status = call(kernel, n, outs, 1, pointers, count, handle, None)
            if status != 0:
                self.check(status, "kiln_launch_n")

        return launch

    def close(self):
        self.lib.kiln_close(self.service)


def geometry(spec):
    """The fields of a canonical spec that tuning chose."""
    chosen = ("block=", "elems=", "vector=", "cache=")
    return " ".join(word for word in spec.split() if word.startswith(chosen))
