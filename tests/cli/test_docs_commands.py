"""Each command that a page of the documentation shows runs, and prints what the page shows. test_man.py has the man page."""

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

    def test_guides(self):
        for name in pages():
            if name != "README.md":
                self.run_page(name, self.sandbox())


if __name__ == "__main__":
    unittest.main()
