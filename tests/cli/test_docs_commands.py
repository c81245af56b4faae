"""Each command that a page of the documentation shows runs, and prints what the page shows. test_man.py has the man page."""

import math
import unittest

import numpy as np

from doclines import pages
from docsandbox import PageTest


class Commands(PageTest):
    def test_readme(self):
        sandbox = self.sandbox()
        x = np.load(sandbox.path("x.npy"))
        self.run_page("README.md", sandbox)
        y = np.clip(x + np.float32(3), 0, 6) * np.float32(1 / 6)
        np.testing.assert_array_equal(np.load(sandbox.path("y.npy")), y)
        np.testing.assert_array_equal(np.load(sandbox.path("z.npy")), x + y)
        total = np.log(np.exp(x.astype(np.float64)).sum(0))
        np.testing.assert_allclose(np.load(sandbox.path("p.npy")), x - total, rtol=1e-5, atol=1e-5)

    def test_expressions(self):
        """The results are those of the formulas, in NumPy and its own precision."""
        sandbox = self.sandbox()
        names = "x", "y", "m", "v", "alpha", "front", "back", "mask"
        x, y, m, v, alpha, front, back, mask = (np.load(sandbox.path(n + ".npy")) for n in names)
        self.run_page("docs/expressions.md", sandbox)

        def check(name, want, atol=1e-5):
            got = np.load(sandbox.path(name + ".npy"))
            self.assertEqual(got.dtype, want.dtype, name)
            np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-5, atol=atol)

        m2, v2 = 0.9 * m + 0.1 * y, 0.999 * v + 0.001 * y * y
        check("m2", m2.astype(np.float32))
        check("v2", v2.astype(np.float32))
        quantised = np.clip(np.rint(x * 32), -127, 127)
        check("q", quantised.astype(np.int8))
        check("x2", (quantised * np.float32(0.03125)).astype(np.float32))
        check("x3", x, 0.2)  # three bits of fraction
        wide = alpha.astype(np.int32)
        check("image", ((wide * front + (255 - wide) * back + 127) // 255).astype(np.uint8))
        check("abs", np.hypot(x, y))
        half = y - 0.5 * 0.01 * x
        q = x + 0.01 * half
        check("q2", q.astype(np.float32))
        check("p2", (half - 0.5 * 0.01 * q).astype(np.float32))
        check("step", (x - 0.01 * m2 / (np.sqrt(v2) + 1e-8)).astype(np.float32))
        row, column = np.indices(x.shape)
        check("causal", np.where(column <= row, x, -np.inf).astype(np.float32))
        h = np.load(sandbox.path("h.npy"))
        total, gelu = h + h, np.vectorize(lambda t: t * 0.5 * (1 + math.erf(t / math.sqrt(2))))
        check("eager", gelu(total.astype(np.float64)).astype(np.float16) * h, 2e-3)
        check("residual", np.where(mask, x + y, x))
        check("swiglu", (x / (1 + np.exp(-x)) * y).astype(np.float32))
        total = x + np.load(sandbox.path("values.npy"))
        check("gelu", np.array([t * 0.5 * (1 + math.erf(t / math.sqrt(2))) for t in total.flat],
                               np.float32).reshape(total.shape))
        check("horner", (((2 * x + 0.25) * x - 0.5) * x + 1).astype(np.float32))

    def test_guides(self):
        for name in pages():
            if name not in ("README.md", "docs/expressions.md"):
                self.run_page(name, self.sandbox())


if __name__ == "__main__":
    unittest.main()
