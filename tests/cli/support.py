"""What the tests of the command share: running it, arrays with awkward values, and NumPy's idea of each operation."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

KILN = os.environ.get("KILN", "kiln")
OWN = ("KILN_LOG", "KILN_DEVICE", "KILN_RECORD", "KILN_PACKS", "KILN_SHARED_DIR", "KILN_CACHE_BYTES", "KILN_WISDOM", "KILN_TRUST",
       "KILN_REMOTE", "KILN_REMOTE_SECRET", "KILN_TRUST_REMOTE")
FAKE_LIBCUDA = os.environ.get("KILN_FAKE_LIBCUDA", "")

DTYPES = ("f32", "f64", "f16", "bf16")
STORAGE = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": np.uint16}
REAL = {"f32": np.float32, "f64": np.float64, "f16": np.float32, "bf16": np.float32}
UNIT = {"f32": 2.0**-24, "f64": 2.0**-53, "f16": 2.0**-11, "bf16": 2.0**-8}  # half of the step behind 1


class KilnTest(unittest.TestCase):
    """A test with a directory, a cache and an environment of its own, on the cpu unless it says otherwise."""

    device = "cpu"

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="kiln-cli-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.cache = self.path("cache")
        self.env = {k: v for k, v in os.environ.items() if k not in OWN}
        self.env["KILN_CACHE_DIR"] = self.cache
        if self.device:
            self.env["KILN_DEVICE"] = self.device

    def path(self, name):
        return os.path.join(self.dir, name)

    def save(self, name, array):
        path = self.path(name)
        np.save(path, array)
        return path

    def kiln(self, *args, status=0, env=None, **options):
        """Runs the command; the exit status must be `status`, or any if that is None."""
        options.setdefault("stdin", subprocess.DEVNULL)
        result = subprocess.run([KILN, *map(str, args)], env=env or self.env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=300, **options)
        result.stdout = result.stdout.decode(errors="replace")
        result.stderr = result.stderr.decode(errors="replace")
        if status is not None:
            self.assertEqual(result.returncode, status, f"{args}\n{result.stdout}{result.stderr}")
        return result

    def kiln_json(self, *args, status=0, **options):
        result = self.kiln(*args, "--json", status=status, **options)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 1, result.stdout)
        return json.loads(lines[0])

    def tune_leaving_out(self, *args, **options):
        """The first result of a tune of which a variant is left out. On a busy machine a short budget ends before its turn."""
        for budget in (1, 5, 25):
            result = self.kiln_json("tune", *args, "--budget", budget, **options)["results"][0]
            if result["out"] > 0:
                break
        return result

    def assert_bad(self, args, *words, **options):
        """The command must refuse with status 2 and one line on stderr that has all the words; returns it."""
        result = self.kiln(*args, status=2, **options)
        self.assertEqual(result.stdout, "")
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("kiln: "), lines[0])
        for word in words:
            self.assertIn(word, lines[0])
        return lines[0]

    def assert_same(self, got, want, dtype):
        """Bit for bit, but any NaN equals any NaN."""
        self.assertEqual(got.dtype, want.dtype)
        self.assertEqual(got.shape, want.shape)
        bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[got.dtype.itemsize]
        got, want = got.reshape(-1), want.reshape(-1)
        both_nan = is_nan(got, dtype) & is_nan(want, dtype)
        wrong = np.flatnonzero((got.view(bits) != want.view(bits)) & ~both_nan)
        if wrong.size:
            i = wrong[0]
            self.fail(f"{wrong.size} differ, first [{i}]: {got.view(bits)[i]:#x}, not {want.view(bits)[i]:#x}")


def is_nan(array, dtype):
    if dtype == "bf16":
        return (array & np.uint16(0x7FFF)) > np.uint16(0x7F80)
    return np.isnan(array)


def widen(array, dtype):
    """Stored values as the type that Kiln computes in."""
    if dtype == "bf16":
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array.astype(REAL[dtype])


def narrow(array, dtype):
    """Rounds once, to nearest even, to the stored type."""
    if dtype != "bf16":
        with np.errstate(over="ignore"):
            return array.astype(STORAGE[dtype])
    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(array), np.uint32(0x7FC0), rounded).astype(np.uint16)


def logsumexp(x, axis):
    most = x.max(axis=axis, keepdims=True)
    safe = np.where(np.isinf(most), 0, most)
    with np.errstate(divide="ignore"):
        return (np.log(np.exp(x - safe).sum(axis=axis, keepdims=True)) + safe).squeeze(axis)


def kept(function, x, axis=-1):
    return function(x, axis=axis, keepdims=True)


def softmax(x):
    e = np.exp(x - kept(np.max, x))
    return e / kept(np.sum, e)


def layer_norm(x, w, b):
    return (x - kept(np.mean, x)) / np.sqrt(kept(np.var, x) + 1e-5) * w + b


def awkward_values(dtype):
    """NaN, infinities, zeros, subnormals, the thresholds of the operations and their neighbours."""
    real = REAL[dtype]
    plain = [0.0, 3.0, 2.5, 1.0, 6.0, 0.5, 1e-3, np.inf]
    values = np.array(plain + [-v for v in plain] + [np.nan], dtype=real)
    near = np.concatenate([np.nextafter(values, real(np.inf)), np.nextafter(values, real(-np.inf))])
    small = {"f32": 2.0**-149, "f64": 5e-324, "f16": 2.0**-24, "bf16": 2.0**-133}[dtype]
    large = {"f32": 3.4028235e38, "f64": 1.797e308, "f16": 65504.0, "bf16": 3.3895314e38}[dtype]
    subnormal = np.array([small, -small, small * 3, -small * 3, small * 100, large, -large], dtype=real)
    return narrow(np.concatenate([values, near, subnormal]), dtype)


def some_values(dtype, count, seed):
    """The awkward values, then normal ones, then any bits at all."""
    random = np.random.default_rng(seed)
    awkward = awkward_values(dtype)
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(STORAGE[dtype]).itemsize]
    normal = narrow((random.standard_normal(count // 2) * 3).astype(REAL[dtype]), dtype)
    anything = random.integers(0, np.iinfo(bits).max, count - normal.size, dtype=bits, endpoint=True)
    values = np.concatenate([awkward, normal, anything.view(STORAGE[dtype])])
    return values if seed == 0 else random.permutation(values)


def clamp(x, lo, hi):
    low = np.where(x > lo, x, lo)
    return np.where(np.isnan(x), x, np.where(low < hi, low, hi)).astype(x.dtype)


def hardsigmoid(x):
    real = x.dtype.type
    q = x + real(3)
    q = np.where(q < 0, real(0), q)
    q = np.where(real(6) < q, real(6), q)
    return q * real(np.float32(1) / np.float32(6))


def hardsigmoid_linear(x, alpha=0.2, beta=0.5):
    real = x.dtype.type
    product = real(alpha) * x
    return clamp(product + real(beta), real(0), real(1))


def hardtanh(x, lo=-1.0, hi=1.0):
    return clamp(x, x.dtype.type(lo), x.dtype.type(hi))


def relu6(x):
    return clamp(x, x.dtype.type(0), x.dtype.type(6))


def softsign(x, stored):
    return x / stored(np.abs(x) + x.dtype.type(1))


OPS = {
    "hardsigmoid": (1, hardsigmoid),
    "hardsigmoid_linear": (1, hardsigmoid_linear),
    "hardtanh": (1, hardtanh),
    "relu6": (1, relu6),
    "add": (2, lambda x, y: x + y),
    "mul": (2, lambda x, y: x * y),
    "softsign": (1, softsign),
}


def evaluate(function, arrays, dtype):
    """The operation step by step in the type that Kiln computes in, rounded once at the end, and by softsign before."""
    with np.errstate(all="ignore"):
        given = [widen(a, dtype) for a in arrays]
        if function is softsign:
            given.append(lambda x: widen(narrow(x, dtype), dtype))
        result = function(*given)
    return narrow(np.asarray(result, dtype=REAL[dtype]), dtype)


def compiler_builds_for_gpus(test):
    """Whether an NVRTC was found."""
    return test.kiln("show", "op=copy dtype=f32 target=sm_90", "--log", "--cache-dir", "", status=None).returncode == 0
