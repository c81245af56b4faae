"""Launches of the Python module on the GPUs of the stand-in driver, which records them."""

import ctypes
import os
import shutil
import sys
import tempfile
import unittest

from support import FAKE_LIBCUDA, OWN, compiler_builds_for_gpus

class Launch(ctypes.Structure):  # kiln_fake_launch
    _fields_ = [("name", ctypes.c_char * 64), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("cluster", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("cooperative", ctypes.c_int),
                ("stream", ctypes.c_void_p), ("context", ctypes.c_void_p), ("parameter_count", ctypes.c_uint),
                ("parameters", ctypes.c_uint64 * 8)]


def import_kiln(stand_ins):
    """The module, with two GPUs and a cache of its own, on modules that stand in for others; and the driver."""
    if os.environ.get("KILN_SANITIZE"):
        raise unittest.SkipTest("Python cannot load a library that is built with a sanitizer")
    cache = tempfile.mkdtemp(prefix="kiln-python-")
    unittest.addModuleCleanup(shutil.rmtree, cache, ignore_errors=True)
    for name in (*OWN, "KILN_STRICT", "KILN_ISOLATE", "KILN_WORKER"):
        os.environ.pop(name, None)
    os.environ.update(KILN_CACHE_DIR=cache, KILN_LIBCUDA=FAKE_LIBCUDA, KILN_FAKE_CUDA="sm=90,devices=2")
    sys.modules.update(stand_ins)
    import kiln
    driver = ctypes.CDLL(FAKE_LIBCUDA)
    for name in ("context_primary", "stream_new"):
        getattr(driver, "kiln_fake_" + name).restype = ctypes.c_void_p
    return kiln, driver


class GpuLaunches:
    """For a KilnTest that has `driver` and `cuda`, the streams and devices of a library that is stood in for."""

    def setUp(self):
        super().setUp()
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        from kiln import _library
        self.driver.kiln_fake_reset()
        self.cuda.streams = (0, 0)
        for index in range(2):
            _library.session().device(index)
        contexts = [ctypes.c_void_p(self.driver.kiln_fake_context_primary(i)) for i in range(2)]
        self.contexts = [context.value for context in contexts]
        self.cuda.bind = lambda index: self.driver.kiln_fake_context_set(contexts[index])
        self.cuda.bind(0)
        self.addCleanup(self.driver.kiln_fake_context_set, None)

    def launches(self):
        found = (Launch * 64)()
        return list(found[:self.driver.kiln_fake_launches(found, ctypes.c_size_t(64))])

    def new_streams(self):
        """A stream of each GPU."""
        streams = [self.driver.kiln_fake_stream_new(ctypes.c_void_p(context)) for context in self.contexts]
        self.addCleanup(lambda: [self.driver.kiln_fake_stream_free(ctypes.c_void_p(stream)) for stream in streams])
        return streams

    def check_streams(self, new_array, address, device_of):
        """Launches go to the current stream of the arrays' device, with its context. new_array(index) makes an array."""
        from kiln import op
        add = op("x + y")
        for self.cuda.streams in ((0, 0), self.new_streams()):
            for index in (1, 0, 1, 1):
                x, y = new_array(index), new_array(index)
                out = add(x, y)
                launch = self.launches()[-1]
                self.assertEqual(device_of(out), index)
                self.assertEqual(launch.context, self.contexts[index])
                self.assertEqual(launch.stream or 0, self.cuda.streams[index])
                self.assertEqual(set(launch.parameters[:4]), {address(out), address(x), address(y), 256})
        self.assertEqual(self.cuda.current, 0)
