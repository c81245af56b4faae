"""The man page and the help texts have the same commands and options, and the examples of both run."""

import re
import unittest

from doclines import MAN, Line, classes, options_of, read
from docsandbox import PageTest
from support import KilnTest


class Man(KilnTest):
    def setUp(self):
        super().setUp()
        text = read(MAN).replace(r"\-", "-")
        self.common = options_of(re.search(r"^\.SH COMMON OPTIONS$(.*?)^\.SH ", text, re.M | re.S)[1])
        self.sections = dict(re.findall(r"^\.SS (\w+)\n(.*?)(?=^\.S[SH] )", text, re.M | re.S))
        self.synopsis = dict(re.findall(r'^\.SY "kiln (\w+)"\n(.*?)^\.YS', text, re.M | re.S))
        self.help = {name: self.kiln("help", name).stdout for name in self.sections}

    def test_commands_are_those_of_the_help(self):
        listed = re.findall(r"^  (\w+)  ", self.kiln("help").stdout, re.M)
        self.assertEqual(sorted(self.sections), sorted(listed))
        self.assertEqual(sorted(self.synopsis), sorted([*listed, "help"]))

    def test_options_of_the_help_are_described(self):
        for name, text in self.help.items():
            # "as for build" stands for the options of build.
            sections = [name, *re.findall(r"\bas (?:for|by)\n\.BR? (\w+)", self.sections[name])]
            described = self.common.union(*(options_of(self.sections[other]) for other in sections))
            self.assertLessEqual(options_of(text.split("\noptions:\n")[1].split("\nexamples:")[0]), described, name)

    def test_described_options_exist(self):
        every = set.union(*map(options_of, self.help.values()))
        for name, text in self.sections.items():
            self.assertLessEqual(options_of(text), every | {"--use_fast_math"}, name)
        for name, text in self.synopsis.items():
            if name != "help":
                self.assertLessEqual(options_of(text), options_of(self.help[name]), name)


class Examples(PageTest):
    def test_man(self):
        self.run_page(MAN, self.sandbox())

    def test_numbers_of_specs_run_as_they_are(self):
        sandbox = self.sandbox()
        self.assertNotEqual(sandbox.run("kiln wisdom explain 'op=relu6 n=2^26 target=sm_90'").returncode, 0)
        self.assertEqual(sandbox.run("kiln wisdom explain 'op=relu6 n=67108864 target=sm_90'").returncode, 0)

    def test_help(self):
        sandbox = self.sandbox()
        sandbox.write("kernels.txt", "op=copy\n")
        for name in re.findall(r"^  (\w+)  ", sandbox.run("kiln help").stdout, re.M):
            told = sandbox.run(f"kiln help {name}").stdout
            lines = [Line(f"kiln help {name}", number, text.strip(), [])
                     for number, text in enumerate(told.splitlines(), 1) if text.startswith("  kiln ")]
            self.run_lines([(line, classes(line)[0]) for line in lines], sandbox)


if __name__ == "__main__":
    unittest.main()
