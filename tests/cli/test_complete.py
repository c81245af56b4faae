"""Completions of shells: what `kiln complete` prints is what the help texts say, and the scripts of the shells pass it on."""

import os
import re
import shutil
import subprocess
import unittest

from doclines import ROOT, read
from support import KILN, KilnTest, compiler_builds_for_gpus

SCRIPTS = os.path.join(ROOT, "tools", "completions")
BASH = r"""source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
compopt() { :; }
_kiln && printf '%s\n' "${COMPREPLY[@]}"
"""
ZSH = r"""script=$1; shift
compadd() { printf '%s\n' $names; }
_files() { print files; }
words=("$@") CURRENT=$#
source $script
"""


class Complete(KilnTest):
    def complete(self, *words):
        """{word: description} for the last word."""
        return dict(line.split("\t", 1) for line in self.kiln("complete", *words).stdout.splitlines())

    def commands(self):
        return dict(re.findall(r"^  (\w+) +(.*)$", self.kiln("--help").stdout, re.M))

    def test_commands_are_those_of_the_help(self):
        found = self.complete("")
        for word in "help", "--help", "--version":
            self.assertIn(word, found)
            del found[word]
        self.assertEqual(found, self.commands())
        self.assertEqual(self.complete("help", ""), self.commands())
        self.assertEqual(self.complete("help", "cache", ""), {})
        self.assertEqual(list(self.complete("wi")), ["wisdom"])

    def test_options_are_those_of_the_help(self):
        for command in self.commands():
            options = self.kiln(command, "--help").stdout.split("\noptions:\n")[1].split("\nexamples:")[0]
            shown = dict(re.findall(r"^ +(?:-\w, )?(--[\w-]+)(?: [A-Z][^ ]*)? +(.*)$", options, re.M))
            self.assertEqual(self.complete(command, "--"), shown, command)
            self.assertEqual(list(self.complete(command, "--json")), ["--json"])

    def test_actions_are_those_of_the_message(self):
        for command in "cache", "wisdom":
            message = self.kiln(command, status=2).stderr
            named = re.split(r", | or ", re.search(r"expected (.*); see", message)[1])
            self.assertEqual(list(self.complete(command, "")), named)
            self.assertEqual(list(self.complete(command, "--json", "")), named)
            self.assertNotIn(named[0], self.complete(command, named[0], ""))

    def test_values(self):
        ops = [op["name"] for op in self.kiln_json("ops")["ops"]]
        templates = [template["name"] for template in self.kiln_json("templates")["templates"]]
        message = self.kiln("show", "op=relu6 dtype=f31", "--source", status=2).stderr
        dtypes = re.split(r", | or ", re.search(r"'f31': (.*)$", message, re.M)[1])
        self.assertEqual(list(self.complete("wisdom", "list", "--op", "")), ops)
        self.assertEqual(list(self.complete("run", "op=")), ["op=" + op for op in ops])
        self.assertEqual(list(self.complete("templates", "--print", "")), templates)
        self.assertEqual(list(self.complete("show", "template=")), ["template=" + name for name in templates])
        self.assertEqual(list(self.complete("wisdom", "list", "--dtype=")), ["--dtype=" + name for name in dtypes])
        self.assertEqual(list(self.complete("warm", "op=relu6 dtype=f32,bf")), ["op=relu6 dtype=f32,bf16"])
        self.assertIn("cpu", self.complete("run", "--device", ""))
        self.assertEqual(list(self.complete("wisdom", "--source", "s")), ["shared"])
        self.assertEqual(list(self.complete("warm", "--target", "sm_80,nat")), ["sm_80,native"])

    def test_targets(self):
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        for words in ("warm", "-t", "sm_9"), ("show", "op=copy target=sm_9"), ("build", "--target=sm_9"):
            self.assertTrue(any(word.endswith("sm_90") for word in self.complete(*words)), words)
        if "nvrtc-13.0." in self.kiln("doctor", status=None).stdout:
            listed = re.search(r"13\.0 has (.*?)\.", read("docs/compatibility.md"), re.S)[1]
            self.assertEqual(list(self.complete("warm", "-t", "sm_")), re.findall(r"sm_\w+", listed))

    def test_fields_are_those_of_specs(self):
        fields = list(self.complete("tune", ""))
        for template in self.kiln_json("templates")["templates"]:
            for param in template["params"]:
                self.assertEqual(fields.count(param["name"] + "="), 1)
        known = self.kiln("show", "op=relu6 dtype=f32", "--json").stdout
        self.assertIn("block", known)
        self.assertEqual(list(self.complete("tune", "op=relu6 bl")), ["op=relu6 block="])

    def test_the_shell_completes_files(self):
        for words in (("build", ""), ("run", "op=relu6", "--out", ""), ("run", "--template", ""), ("plot", ""),
                      ("run", "./x"), ("nothing", "x")):
            self.assertEqual(self.kiln("complete", *words, status=None).stdout, "", words)

    def shell(self, name, *arguments):
        if not shutil.which(name):
            self.skipTest(f"no {name}")
        env = dict(self.env, PATH=os.path.dirname(KILN) + ":" + self.env["PATH"], HOME=self.path("."))
        result = subprocess.run([name, *arguments], env=env, capture_output=True, text=True, check=False)
        self.assertEqual(result.stderr, "")
        return [line.split("\t")[0] for line in result.stdout.splitlines()]

    def bash(self, *words):
        return self.shell("bash", "-c", BASH, "bash", os.path.join(SCRIPTS, "kiln.bash"), "kiln", *words)

    def test_bash(self):
        self.assertEqual(self.bash("wi"), ["wisdom"])
        self.assertEqual(self.bash("run", "--dev"), ["--device"])
        # These are the words into which bash cuts op=softsi, 'op=softsi, op=copy dt (a word with a quote) and cuda:.
        self.assertEqual(self.bash("run", "op", "=", "softsi"), ["softsign"])
        self.assertEqual(self.bash("run", "'op=softsi"), ["op=softsign"])
        self.assertEqual(self.bash("run", "'op=copy dt"), ["op=copy dtype="])
        self.assertEqual(self.bash("run", "--device", "cuda", ":"), ["0"])
        self.assertEqual(self.bash("build", ""), [""])

    def zsh(self, *words):
        return self.shell("zsh", "-f", "-c", ZSH, "zsh", os.path.join(SCRIPTS, "_kiln"), "kiln", *words)

    def test_zsh(self):
        self.assertEqual(self.zsh("wi"), ["wisdom"])
        self.assertEqual(self.zsh("run", "'op=copy dt"), ["op=copy dtype="])
        self.assertEqual(self.zsh("run", "--device", "cuda:"), ["cuda:0"])
        self.assertEqual(self.zsh("build", ""), ["files"])

    def fish(self, line):
        script = f"source {SCRIPTS}/kiln.fish; complete -C {line!r}"
        return self.shell("fish", "--no-config", "-c", script)

    def test_fish(self):
        self.assertEqual(self.fish("kiln wi"), ["wisdom"])
        self.assertEqual(self.fish("kiln run --dev"), ["--device"])
        self.assertIn("cuda:0", self.fish("kiln run --device cu"))
        open(self.path("mine.cu"), "w", encoding="utf-8").close()
        self.assertEqual(self.fish(f"kiln build {self.path('mi')}"), [self.path("mine.cu")])


if __name__ == "__main__":
    unittest.main()
