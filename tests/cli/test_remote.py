"""The remote: kernels that machines share through Redis or an HTTP server, and all that can go wrong with such a server."""

import hashlib
import hmac
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import servers
from servers import Nginx, Proxy, Redis, RedisClient
from support import KILN, KilnTest, compiler_builds_for_gpus

ONE = "op=relu6 dtype=f32 target=sm_90"
TWO = "op=relu6,copy dtype=f32 target=sm_90"
SIX = "op=hardsigmoid,relu6 dtype=f32,f16,bf16 target=sm_90"
MANY = "op=hardsigmoid,relu6,copy,hardtanh(-1,1) dtype=f32,f16,bf16 block=32,64,96,128 target=sm_90"  # 48

SECRET = "a secret of the tests"
OTHER_SECRET = "another secret of the tests"

SEAL = 48  # bytes in front of an entry

# What an environment of ours may have that is not this test's
FOREIGN = ("KILN_REMOTE", "KILN_REMOTE_SECRET", "KILN_TRUST_REMOTE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")

shared = {}  # of all tests: the directory, what was compiled without a remote, whether there is an NVRTC


def setUpModule():
    shared["dir"] = tempfile.mkdtemp(prefix="kiln-remote-")
    unittest.addModuleCleanup(shutil.rmtree, shared["dir"], ignore_errors=True)


def entries(cache):
    """The kernels in a cache directory: names as on a server, and bytes."""
    found = {}
    for folder, _, names in os.walk(cache):
        for name in names:
            kernel = re.fullmatch(r"([0-9a-f]{62})\.(nvrtc-[^/]+)\.kiln", name)
            if kernel:
                with open(os.path.join(folder, name), "rb") as file:
                    found[f"kiln1:{os.path.basename(folder)}{kernel[1]}:{kernel[2]}"] = file.read()
    return found


def digest_name(name):
    """The name of what says which toolchain pushed an entry."""
    return name.rsplit(":", 1)[0]


def on_server(name):
    """The name on the server of an entry's toolchain, and the toolchain."""
    return digest_name(name), name.rsplit(":", 1)[1].encode()


def seal(name, entry, secret=SECRET):
    """What a machine with the secret writes before an entry."""
    signed = b"kiln remote entry KILNSEAL 1\n" + name.encode() + b"\0" + entry
    return b"KILNSEAL\1" + bytes(7) + hmac.new(secret.encode(), signed, hashlib.sha256).digest()


def bound_ns(totals):
    """The time that callers of a bad server may lose: 250 ms once, and again after a second, three, seven of the run."""
    return max(600, 300 * (1 + int(math.log2(totals["seconds"] + 1)))) * 10**6


def flip(value, offset, bit=0):
    changed = bytearray(value)
    changed[offset] ^= 1 << bit
    return bytes(changed)


class RemoteTest(KilnTest):
    """Has caches by name, a secret, and the kernels as they are without a remote."""

    def setUp(self):
        super().setUp()
        self.env = {name: value for name, value in self.env.items() if name not in FOREIGN}
        if "nvrtc" not in shared:
            shared["nvrtc"] = compiler_builds_for_gpus(self)
        if not shared["nvrtc"]:
            self.skipTest("no NVRTC")
        self.secret = self.secret_file("secret", SECRET)

    def secret_file(self, name, *lines, mode=0o600):
        path = self.path(name)
        with open(path, "w", encoding="latin-1") as file:
            file.write("".join(line + "\n" for line in lines))
        os.chmod(path, mode)
        return path

    def remote_env(self, url, secret="", **more):
        env = dict(self.env, **more)
        if url is not None:
            env["KILN_REMOTE"] = url
        if secret is not None:
            env["KILN_REMOTE_SECRET"] = secret or self.secret
        return env

    def fresh(self):
        """A cache directory that is not there yet: that of another machine."""
        shared["caches"] = shared.get("caches", 0) + 1
        return self.path(f"cache-{shared['caches']}")

    def warm(self, line, url, *args, cache=None, secret="", status=0, jobs=2, **env):
        """Totals of kiln warm, with stderr's lines as "told", but for the progress, and the cache as "cache"."""
        cache = cache or self.fresh()
        lines = [line] if isinstance(line, str) else line
        result = self.kiln("warm", *lines, "--json", "--stats", "-v", "-j", jobs, "--cache-dir", cache, *args,
                           status=status, env=self.remote_env(url, secret, **env))
        totals = json.loads(result.stdout)
        totals["told"] = [row for row in result.stderr.splitlines()
                          if not row.startswith("kiln: info: ") and not re.match(r"kiln: \d+/\d+ ", row)]
        totals["sources"] = sorted(row["source"] for row in totals["results"])
        totals["cache"] = cache
        return totals

    def reference(self, line):
        """The entries of a line, compiled without a remote."""
        made = shared.setdefault("made", {})
        if line not in made:
            cache = os.path.join(shared["dir"], str(len(made)))
            self.warm(line, None, cache=cache)
            made[line] = (cache, entries(cache))
        return made[line][1]

    def copy_of_reference(self, line):
        """A cache directory that has the line's kernels."""
        self.reference(line)
        cache = self.fresh()
        shutil.copytree(shared["made"][line][0], cache)
        return cache

    def assert_right(self, totals, line):
        """All kernels are there, byte for byte what a run without a remote makes."""
        want = self.reference(line)
        self.assertEqual((totals["failed"], totals["kept"]), (0, len(want)))
        got = entries(totals["cache"])
        self.assertEqual(set(got), set(want))
        self.assertEqual([name for name in want if got[name] != want[name]], [])

    def assert_compiled(self, totals, line):
        self.assert_right(totals, line)
        self.assertEqual(totals["compiled"], len(self.reference(line)))

    def assert_remote(self, totals, line):
        self.assert_right(totals, line)
        self.assertEqual(set(totals["sources"]), {"remote"})
        self.assertEqual((totals["compiled"], totals["stats"]["hits_remote"]), (0, len(self.reference(line))))

    def assert_unused(self, totals, line, *words):
        """The remote is not used, as one line says; the kernels are there all the same."""
        self.assert_right(totals, line)
        self.assertEqual(totals["stats"]["hits_remote"], 0)
        self.assertEqual(len(totals["told"]), 1, totals["told"])
        self.assertTrue(totals["told"][0].startswith("kiln: warning: the remote is not used: "), totals["told"])
        for word in words:
            self.assertIn(word, totals["told"][0])
        self.assertEqual(totals["stats"]["remote_wait_ns"], 0)

    @staticmethod
    def named(totals):
        """The specs of which one line says that they are not pushed."""
        return [row["spec"] for row in totals["results"]
                if sum(told.startswith(f"kiln: {row['spec']}: not pushed: ") for told in totals["told"]) == 1]

    def doctor_row(self, url, **env):
        rows = self.kiln_json("doctor", env=self.remote_env(url, **env), status=None)["findings"]
        return next(row for row in rows if row["name"] == "remote")


class ServerTest(RemoteTest):
    """With a server of the class, which each test finds empty."""

    make, program = None, None

    @classmethod
    def setUpClass(cls):
        if servers.find_program(cls.program) is None:
            raise unittest.SkipTest(f"no {cls.program}")
        directory = tempfile.mkdtemp(prefix="kiln-server-", dir=shared["dir"])
        cls.server = cls.make(directory)
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        super().setUp()
        self.server.clear()
        self.url = self.server.url()

    def fill(self, line, secret=""):
        """Puts a line's kernels on the server; returns their names and values there."""
        totals = self.warm(line, self.url, "--push", cache=self.copy_of_reference(line), secret=secret)
        self.assertEqual((totals["pushed"], totals["not_pushed"]), (len(self.reference(line)), 0))
        return {name: self.server.get(name) for name in self.reference(line)}

    def replace(self, values):
        """Makes these the only entries, with the toolchains that belong to them."""
        self.server.clear()
        for name, value in values.items():
            self.server.put(name, value)
            self.server.put(*on_server(name))


class RedisTest(ServerTest):
    make, program = Redis, "redis-server"


class NginxTest(ServerTest):
    make, program = Nginx, "nginx"


# ---- What both kinds of server do

class Exchange:
    """Pushing and reading."""

    def test_what_one_machine_pushes_another_reads(self):
        pushed = self.warm(SIX, self.url, "--push")
        self.assert_compiled(pushed, SIX)
        self.assertEqual((pushed["pushed"], pushed["not_pushed"], pushed["told"]), (6, 0, []))
        read = self.warm(SIX, self.url)
        self.assert_remote(read, SIX)
        self.assertEqual(read["told"], [])
        self.assertEqual(entries(read["cache"]), entries(pushed["cache"]))
        stats = read["stats"]
        self.assertEqual((stats["remote_gets"], stats["remote_refused"], stats["remote_failures"]), (6, 0, 0))

        again = self.warm(SIX, None, cache=read["cache"])  # it is on the disk now
        self.assertEqual((set(again["sources"]), again["compiled"]), ({"disk"}, 0))

    def test_what_lies_on_the_server(self):
        self.fill(SIX)
        kernels = self.reference(SIX)
        self.assertEqual(self.server.names(), set(kernels) | {digest_name(name) for name in kernels})
        for name, entry in kernels.items():
            self.assertEqual(self.server.get(name), seal(name, entry) + entry)
            self.assertEqual(self.server.get(digest_name(name)), on_server(name)[1])

    def test_only_push_sends(self):
        plain = self.warm(SIX, self.url)
        self.assert_compiled(plain, SIX)
        self.assertEqual(self.server.names(), set())
        self.assertNotIn("pushed", plain)
        first = self.warm(SIX, self.url, "--push", cache=plain["cache"])  # from the disk
        self.assertEqual((set(first["sources"]), first["pushed"], first["not_pushed"]), ({"disk"}, 6, 0))
        self.assertEqual(len(self.server.names()), 12)
        second = self.warm(SIX, self.url, "--push", cache=plain["cache"])
        self.assertEqual((second["pushed"], second["not_pushed"]), (0, 0))
        other = self.warm(SIX, self.url, "--push")  # from the server
        self.assert_remote(other, SIX)
        self.assertEqual((other["pushed"], other["not_pushed"]), (0, 0))

    def test_push_sends_what_is_missing(self):
        values = self.fill(SIX)
        kept = dict(list(values.items())[:4])
        self.replace(kept)
        totals = self.warm(SIX, self.url, "--push")
        self.assert_right(totals, SIX)
        self.assertEqual((totals["compiled"], totals["pushed"], totals["stats"]["hits_remote"]), (2, 2, 4))
        self.assertLessEqual(set(values), self.server.names())

    def test_other_commands_push_what_they_compile(self):
        shown = self.kiln("show", ONE, "--ptx", "--cache-dir", self.fresh(), env=self.remote_env(self.url))
        self.assertEqual(shown.stderr, "")
        self.assertLessEqual(set(self.reference(ONE)), self.server.names())
        self.assert_remote(self.warm(ONE, self.url), ONE)

    def test_a_machine_without_a_compiler(self):
        """It asks the server which toolchain there is."""
        self.fill(TWO)
        self.assert_remote(self.warm(TWO, self.url, KILN_NVRTC="/none/libnvrtc.so"), TWO)

    def test_strict_mode_reads(self):
        self.fill(ONE)
        self.assert_remote(self.warm(ONE, self.url, KILN_STRICT="1"), ONE)

    def test_sources_and_what_they_include(self):
        header, source = self.path("factor.h"), self.path("scale.cu")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#include "factor.h"\nextern "C" __global__ void scale(float *x) { x[threadIdx.x] *= FACTOR; }\n')

        def build(factor):
            with open(header, "w", encoding="utf-8") as file:
                file.write(f"#define FACTOR {factor}.0f\n")
            cubin = self.path("scale.cubin")
            totals = self.kiln_json("build", source, "--target", "sm_90", "-o", cubin, "--cache-dir", self.fresh(),
                                    env=self.remote_env(self.url))
            with open(cubin, "rb") as file:
                return totals["results"][0]["source"], file.read()

        first, second, changed, same = build(3), build(3), build(5), build(5)
        self.assertEqual([source for source, _ in (first, second, changed, same)],
                         ["compiled", "remote", "compiled", "remote"])
        self.assertEqual(first[1], second[1])
        self.assertEqual(changed[1], same[1])
        self.assertNotEqual(first[1], changed[1])

    def test_sources_reach_the_disk(self):
        """The kernel of a source, and the list of what it read, by which it is found."""
        with open(self.path("one.h"), "w", encoding="utf-8") as file:
            file.write("#define ONE 1.0f\n")
        source = self.path("plus.cu")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#include "one.h"\nextern "C" __global__ void plus(float *x) { x[threadIdx.x] += ONE; }\n')

        def build(cache, url):
            totals = self.kiln_json("build", source, "--target", "sm_90", "-o", self.path("out"), "--cache-dir", cache,
                                    env=self.remote_env(url))
            return totals["results"][0]["source"]

        self.assertEqual(build(self.fresh(), self.url), "compiled")
        for cache in (self.fresh(), self.copy_of_reference(ONE)):  # one that does not know the compiler, and one that does
            self.assertEqual([build(cache, self.url), build(cache, None)], ["remote", "disk"])

    def test_unsandboxed_sources_stay(self):
        """A source that no worker compiles can read files of its host: its result is for this process alone."""
        source = self.path("plain.cu")
        with open(source, "w", encoding="utf-8") as file:
            file.write('extern "C" __global__ void plain(float *x) { x[threadIdx.x] = 1; }\n')
        self.kiln("build", source, "--target", "sm_90", "-o", self.path("out"), "--cache-dir", "", status=None,
                  env=self.remote_env(self.url, KILN_ISOLATE="never"))
        self.assertTrue(os.path.exists(self.path("out")))
        self.assertEqual(self.server.names(), set())

    def test_check_is_of_the_directory(self):
        self.fill(ONE)
        self.kiln("warm", ONE, "--check", "--cache-dir", self.fresh(), env=self.remote_env(self.url), status=1)

    def test_what_is_on_disk_is_not_asked_for(self):
        self.fill(TWO)
        cache = self.warm(TWO, self.url)["cache"]
        for nvrtc in ({}, {"KILN_NVRTC": "/none/libnvrtc.so"}):
            totals = self.warm(TWO, self.url, cache=cache, **nvrtc)
            self.assertEqual((set(totals["sources"]), totals["stats"]["remote_gets"], totals["stats"]["remote_wait_ns"]),
                             ({"disk"}, 0, 0))

    def test_doctor(self):
        row = self.doctor_row(self.url)
        self.assertTrue(row["ok"], row)
        self.assertEqual(row["path"], self.url)
        self.assertIn("a secret to sign", row["detail"])
        with socket.socket() as taken:  # bound, and nobody listens
            taken.bind((servers.HOST, 0))
            row = self.doctor_row(self.server.url(taken.getsockname()[1]))
            self.assertFalse(row["ok"], row)
            self.assertIn("Connection refused", row["detail"])
            self.assertIn("KILN_REMOTE", row["remedy"])


class Trust:
    """Whose entries are loaded."""

    def refused(self, values, bad, line, least=1, **options):
        """Of the line's kernels those that are `bad` must be compiled, and all others come from the server."""
        self.replace(values)
        totals = self.warm(line, self.url, **options)
        self.assert_right(totals, line)
        self.assertEqual((totals["compiled"], totals["stats"]["hits_remote"]), (len(bad), len(values) - len(bad)))
        self.assertGreaterEqual(totals["stats"]["remote_refused"], least * len(bad))
        self.assertEqual(totals["stats"]["remote_failures"], 0)
        self.assertGreaterEqual(len(totals["told"]), 1)
        self.assertTrue(all("kiln: warning: remote " in row and "it is not used" in row for row in totals["told"]),
                        totals["told"])
        return totals

    def test_without_a_secret_it_is_not_used(self):
        self.fill(SIX)
        totals = self.warm(SIX, self.url, secret=None)
        self.assert_compiled(totals, SIX)
        self.assert_unused(totals, SIX, "there is no secret", "KILN_REMOTE_SECRET")

    def test_another_secret(self):
        values = self.fill(SIX)
        totals = self.refused(values, values, SIX, secret=self.secret_file("other", OTHER_SECRET))
        self.assertIn("signed with another secret", totals["told"][0])

    def test_entries_of_other_keys(self):
        good = self.fill(SIX)
        names = sorted(good)
        self.refused(dict(zip(names, [good[name] for name in names[1:] + names[:1]])), names, SIX)

    def test_a_huge_value(self):
        """More than is read at all: it is refused like others that are none, and one line says so."""
        values = self.fill(ONE)
        self.replace({name: b"x" * (65 << 20) for name in values})
        totals = self.warm(ONE, self.url)
        self.assert_compiled(totals, ONE)
        self.assertGreaterEqual(totals["stats"]["remote_refused"] + totals["stats"]["remote_failures"], 1)
        self.assertEqual(len(totals["told"]), 1, totals["told"])

    def test_the_name_of_a_toolchain_is_not_believed(self):
        """It is not signed. Whatever it says, kernels are right, or there are none where no compiler is."""
        values = self.fill(ONE)
        for text in (b"", b"\0\xff\r\n", b"x" * 5000, b"../../../etc/passwd", b"nvrtc-1.0.0-00000000"):
            self.replace(values)
            for name in values:
                self.server.put(digest_name(name), text)
            self.assert_right(self.warm(ONE, self.url), ONE)
            failed = self.warm(ONE, self.url, KILN_NVRTC="/none/libnvrtc.so", status=1)
            self.assertEqual((failed["failed"], entries(failed["cache"])), (1, {}))

    def test_push_repairs(self):
        """A machine that has a kernel replaces what nobody can use on the server."""
        good = self.fill(TWO)
        first, second = sorted(good)
        self.replace({first: good[first][SEAL:], second: flip(good[second], 3000)})
        totals = self.warm(TWO, self.url, "--push", cache=self.copy_of_reference(TWO))
        self.assertEqual((totals["pushed"], totals["not_pushed"]), (2, 0))
        self.assert_remote(self.warm(TWO, self.url), TWO)

    def test_a_machine_that_compiles_repairs(self):
        good = self.fill(TWO)
        self.replace({name: value[SEAL:] for name, value in good.items()})
        self.assert_compiled(self.warm(TWO, self.url, "--push"), TWO)
        self.assert_remote(self.warm(TWO, self.url), TWO)

    def test_a_secret_is_changed(self):
        old, new = self.secret_file("old", SECRET), self.secret_file("new", OTHER_SECRET)
        both = self.secret_file("both", OTHER_SECRET, SECRET)
        self.fill(ONE, secret=old)
        self.assert_remote(self.warm(ONE, self.url, secret=both), ONE)
        totals = self.warm(SIX, self.url, "--push", secret=both)  # one of these is that of the old secret
        self.assert_right(totals, SIX)
        self.assertEqual(totals["stats"]["hits_remote"], 1)
        totals = self.warm(SIX, self.url, secret=new)
        self.assert_right(totals, SIX)
        self.assertGreaterEqual(totals["stats"]["hits_remote"], 5)
        self.assert_compiled(self.warm(ONE, self.url, secret=self.secret_file("third", "x" * 16)), ONE)

    def test_push_signs_anew_with_a_changed_secret(self):
        """The old one can be removed only when nothing on the server needs it any more."""
        self.fill(TWO, secret=self.secret_file("old", SECRET))
        both, new = self.secret_file("both", OTHER_SECRET, SECRET), self.secret_file("new", OTHER_SECRET)
        totals = self.warm(TWO, self.url, "--push", secret=both, cache=self.copy_of_reference(TWO))
        self.assertEqual(totals["not_pushed"], 0)
        self.assert_remote(self.warm(TWO, self.url, secret=new), TWO)

    def test_a_trusted_server(self):
        """Signed and unsigned entries are read, nothing is pushed, and damage is found nevertheless."""
        trusting = {"secret": None, "KILN_TRUST_REMOTE": "on"}
        good = self.fill(SIX)
        self.assert_remote(self.warm(SIX, self.url, **trusting), SIX)
        self.replace({name: value[SEAL:] for name, value in good.items()})
        self.assert_remote(self.warm(SIX, self.url, **trusting), SIX)
        names = sorted(good)
        bad = {names[0]: flip(good[names[0]], SEAL + 2000), names[1]: good[names[1]][SEAL:-1], names[2]: b"",
               names[3]: good[names[4]][SEAL:]}
        self.refused({**good, **bad}, bad, SIX, **trusting)
        before = self.server.names()
        self.kiln("show", "op=add dtype=f32 target=sm_90", "--ptx", "--cache-dir", self.fresh(),
                  env=self.remote_env(self.url, **trusting))
        self.assertEqual(self.server.names(), before)
        self.assertIn("nothing is pushed", self.doctor_row(self.url, **trusting)["detail"])

    def test_a_trusted_server_with_a_secret(self):
        """Entries of all machines are read, whatever their secret; what is compiled is signed and pushed."""
        other = self.secret_file("other", OTHER_SECRET)
        self.fill(ONE, secret=other)
        totals = self.warm(TWO, self.url, "--push", KILN_TRUST_REMOTE="on")
        self.assert_right(totals, TWO)
        self.assertEqual((totals["compiled"], totals["stats"]["hits_remote"], totals["not_pushed"]), (1, 1, 0))
        for name in set(self.reference(TWO)) - set(self.reference(ONE)):
            entry = self.reference(TWO)[name]
            self.assertEqual(self.server.get(name), seal(name, entry) + entry)

    def test_push_without_a_secret_is_an_error(self):
        """Nothing can be sent; a deployment must not take that for success."""
        totals = self.warm(ONE, self.url, "--push", secret=None, KILN_TRUST_REMOTE="on", status=None)
        self.assertEqual(self.server.names(), set())
        result = self.kiln("warm", ONE, "--push", env=self.remote_env(self.url, None, KILN_TRUST_REMOTE="on"), status=1)
        self.assertIn("secret", result.stderr)
        self.assertEqual(totals["pushed"], 0)


def record(samples, variants=10, toolchain="nvrtc-13.0.88-36424714", op="relu6"):
    """A record of wisdom, as in a file of it."""
    return {"model": "NVIDIA H200", "target": "sm_90", "multiprocessors": 132, "l2_bytes": 62914560,
            "memory_bytes": 150000000000, "template": "elementwise", "class": "1 in, 1 out, light", "op": op, "dtype": "f32",
            "log2_n": 26, "geometry": "block=128 elems=4 vector=4 cache=stream", "ms": 0.1, "gbps": 4000, "ratio": 1,
            "samples": samples, "variants": variants, "template_digest": "", "toolchain": toolchain, "by": "kiln 0.2.0"}


class Wisdom:
    """Results of tuning, merged."""

    def machine(self, *records):
        """A cache directory with these records."""
        cache, path = self.fresh(), self.path("wisdom.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format": 1, "records": records}, file)
        self.kiln("wisdom", "import", path, "--cache-dir", cache)
        return cache

    def move(self, how, cache, url=None, status=0, **env):
        return self.kiln_json("wisdom", how, "--cache-dir", cache, env=self.remote_env(url or self.url, **env), status=status)

    def samples(self, cache):
        return [(row["op"], row["samples"]) for row in self.kiln_json("wisdom", "list", "--cache-dir", cache)["records"]]

    def test_the_best_of_all_machines(self):
        """The newest compiler's, then that of the widest search, then that of the most samples."""
        older = record(1000, 500, "nvrtc-12.9.0-1")
        one, two, three = self.machine(older, record(7, op="copy")), self.machine(record(100)), self.machine(record(300))
        wide = self.machine(record(50, 20))
        self.assertEqual(self.move("push", one), {"added": 2, "replaced": 0, "present": 0, "kept": 0})
        self.assertEqual(self.move("push", three), {"added": 0, "replaced": 1, "present": 0, "kept": 0})
        self.assertEqual(self.move("push", two), {"added": 0, "replaced": 0, "present": 0, "kept": 1})
        self.assertEqual(self.move("push", wide), {"added": 0, "replaced": 1, "present": 0, "kept": 0})
        self.assertEqual(self.move("push", three), {"added": 0, "replaced": 0, "present": 0, "kept": 1})
        for cache in (one, two, three, wide, self.fresh()):
            self.move("pull", cache)
            self.assertEqual(self.samples(cache), [("copy", 7), ("relu6", 50)])
            again = self.move("pull", cache)
            self.assertEqual((again["added"], again["replaced"], again["present"]), (0, 0, 2))
        self.assertEqual(self.samples(self.machine(record(5))), [("relu6", 5)])  # others are as they were

    def test_whose_wisdom(self):
        cache = self.machine(record(100))
        self.move("push", cache)
        name, value = "kiln1:wisdom", self.server.get("kiln1:wisdom")
        for bad in (value[SEAL:], flip(value, SEAL + 40), flip(value, 20), b"", b"{}", value[:-1]):
            self.server.put(name, bad)
            for how in ("pull", "push"):
                result = self.kiln("wisdom", how, "--cache-dir", cache, env=self.remote_env(self.url), status=1)
                self.assertIn("it is not signed with a secret of this machine", result.stderr.splitlines()[-1])
            self.assertEqual(self.server.get(name), bad)
        self.assertEqual(self.samples(cache), [("relu6", 100)])
        self.server.put(name, value[SEAL:])
        other = self.fresh()
        self.move("pull", other, secret=None, KILN_TRUST_REMOTE="on")
        self.assertEqual(self.samples(other), [("relu6", 100)])
        result = self.kiln("wisdom", "push", "--cache-dir", self.machine(record(200)), status=1,
                           env=self.remote_env(self.url, None, KILN_TRUST_REMOTE="on"))
        self.assertIn("there is no secret to sign wisdom with", result.stderr)

    def test_nothing_there(self):
        self.assertEqual(self.move("pull", self.machine(record(1))), {"added": 0, "replaced": 0, "present": 0, "kept": 0})
        result = self.kiln("wisdom", "pull", "--cache-dir", self.fresh(), env=self.remote_env(None), status=1)
        self.assertEqual(result.stderr, "kiln: there is no remote\n")
        with socket.socket() as taken:
            taken.bind((servers.HOST, 0))
            result = self.kiln("wisdom", "push", "--cache-dir", self.machine(record(1)), status=1,
                               env=self.remote_env(self.server.url(taken.getsockname()[1])))
        self.assertIn("Connection refused", result.stderr.splitlines()[-1])


class Faults:
    """A server that does not do what it should. All kernels are right, and the time that is lost is bounded."""

    def through(self, fault, *args, line=SIX, status=0, **options):
        with Proxy(self.server.port, fault) as proxy:
            return self.warm(line, self.server.url(proxy.port), *args, status=status, jobs=1, **options)

    def assert_bounded(self, totals, line=SIX):
        self.assert_right(totals, line)
        self.assertLessEqual(totals["stats"]["remote_wait_ns"], bound_ns(totals))

    def assert_off(self, totals, line=SIX):
        """The breaker has opened: one line says that something is wrong, and the server was left alone after that."""
        self.assert_compiled(totals, line)
        self.assert_bounded(totals, line)
        self.assertEqual(len(totals["told"]), 1, totals["told"])
        self.assertIn("kiln: warning: remote ", totals["told"][0])
        self.assertGreaterEqual(totals["stats"]["remote_failures"], 1)
        self.assertGreaterEqual(totals["stats"]["remote_skipped"], 3)

    def test_a_good_proxy(self):
        """The others would prove little if this one failed."""
        self.fill(SIX)
        self.assert_remote(self.through(servers.passes), SIX)

    def test_refused(self):
        with socket.socket() as taken:
            taken.bind((servers.HOST, 0))
            self.assert_off(self.warm(SIX, self.server.url(taken.getsockname()[1]), jobs=1))

    def test_full_backlog(self):
        """Nobody accepts: connecting itself takes forever."""
        with socket.socket() as deaf:
            deaf.bind((servers.HOST, 0))
            deaf.listen(0)
            address = deaf.getsockname()
            waiting = [socket.socket() for _ in range(4)]
            for client in waiting:
                client.setblocking(False)
                client.connect_ex(address)
            self.assert_off(self.warm(SIX, self.server.url(address[1]), jobs=1))
            for client in waiting:
                client.close()

    def test_silence(self):
        self.fill(SIX)
        self.assert_off(self.through(servers.hangs))

    def test_late_answers(self):
        self.fill(SIX)
        self.assert_off(self.through(servers.stalls(5)))

    def test_slow_bytes(self):
        self.fill(SIX)
        self.assert_off(self.through(servers.drips(1)))
        self.assert_off(self.through(servers.drips(0.05)))

    def test_resets(self):
        self.fill(SIX)
        self.assert_off(self.through(servers.resets))

    def test_garbage(self):
        noise = random.Random(1)
        for size in (1, 7, 100, 100000):
            with self.subTest(size=size):
                self.assert_bounded(self.through(servers.answers(noise.randbytes(size)), line=ONE), ONE)

    def test_answers_that_are_none(self):
        self.fill(ONE)
        for answer in self.wrong_answers:
            with self.subTest(answer=answer[:60]):
                totals = self.through(servers.answers(answer), line=ONE)
                self.assert_compiled(totals, ONE)
                self.assert_bounded(totals, ONE)

    def test_ends_anywhere(self):
        """Each connection ends after so many bytes of answers."""
        whole = max(map(len, self.fill(TWO).values()))
        for count in (*range(0, 200, 13), 1, 5, 4096, whole - 1, whole, whole + 9, whole + 12, whole + 300, 2 * whole):
            line = ONE if count < whole else TWO
            with self.subTest(count=count):
                self.assert_bounded(self.through(servers.closes_after(count), line=line), line)

    def test_push_to_a_bad_server(self):
        """Every kernel that did not arrive is named."""
        for fault in (servers.hangs, servers.resets, servers.answers(b"no\r\n"), servers.closes_after(0)):
            with self.subTest(fault=fault):
                start = time.monotonic()
                totals = self.through(fault, "--push", status=1)
                self.assertLess(time.monotonic() - start, 10)
                self.assert_compiled(totals, SIX)
                self.assertEqual((totals["pushed"], totals["not_pushed"]), (0, 6))
                self.assertLessEqual(totals["stats"]["remote_wait_ns"], bound_ns(totals))
                self.assertEqual(self.named(totals), [row["spec"] for row in totals["results"]])

    def test_a_command_that_pushes_ends(self):
        for fault in (servers.hangs, servers.drips(0.05)):
            with Proxy(self.server.port, fault) as proxy:
                start = time.monotonic()
                self.kiln("show", ONE, "--ptx", "--cache-dir", self.fresh(),
                          env=self.remote_env(self.server.url(proxy.port)))
                self.assertLess(time.monotonic() - start, 5)

    def push_for(self, seconds, fault):
        """Whether kiln warm --push ends by itself within that time."""
        with Proxy(self.server.port, fault) as proxy:
            process = subprocess.Popen([KILN, "warm", ONE, "--push", "--cache-dir", self.fresh()], stdin=subprocess.DEVNULL,
                                       env=self.remote_env(self.server.url(proxy.port)), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
            finally:
                process.kill()
                process.wait()

    def test_push_ends_though_answers_do_not(self):
        """An answer that goes on and on, in small pieces and in large ones."""
        for piece, pause in ((b"x", 0.05), (b"x" * 65536, 0)):
            with self.subTest(pause=pause):
                first = [self.endless]

                def endless(proxy, client, server, piece=piece, pause=pause, first=first):
                    client.sendall(first[0])
                    servers.repeats(piece, pause)(proxy, client, server)

                self.assertEqual(self.push_for(8, endless), 1)

    def test_a_server_that_comes_back(self):
        """The breaker closes: what is asked for after a second or two comes from the server again."""
        self.fill(MANY)
        totals = self.through(servers.silent_at_first(0.4), line=MANY)
        self.assert_bounded(totals, MANY)
        self.assertGreaterEqual(totals["compiled"], 1)
        self.assertGreaterEqual(totals["stats"]["hits_remote"], 1)


# ---- Redis

class RedisExchange(Exchange, RedisTest):
    def test_a_number(self):
        self.warm(ONE, self.server.url(number="/3"), "--push")
        self.assertEqual(self.server.names(), set())
        self.server.ask("SELECT", 3)
        self.addCleanup(self.server.ask, "SELECT", 0)
        self.assertEqual(len(self.server.names()), 2)
        self.assert_remote(self.warm(ONE, self.server.url(number="/3")), ONE)
        self.assert_compiled(self.warm(ONE, self.server.url(number="/4")), ONE)

    def test_a_socket(self):
        url = f"redis+unix://{self.server.path}"
        self.assertEqual(self.warm(SIX, url, "--push")["pushed"], 6)
        self.assert_remote(self.warm(SIX, url), SIX)
        self.assert_remote(self.warm(SIX, self.url), SIX)
        self.assertTrue(self.doctor_row(url)["ok"])

    def test_a_socket_that_is_not_there(self):
        """Its absence is a fault of the server's; a value's absence is none."""
        url = f"redis+unix://{self.path('none')}"
        totals = self.warm(TWO, url)
        self.assert_compiled(totals, TWO)
        self.assertEqual(len(totals["told"]), 1)
        self.assertGreaterEqual(totals["stats"]["remote_failures"], 1)
        self.assertFalse(self.doctor_row(url)["ok"])

    def test_what_is_left_of_leases(self):
        self.warm(TWO, self.url, "--push")
        self.assertEqual([name for name in self.server.names() if name.endswith(":lease")], [])


class RedisTrust(Trust, RedisTest):
    def test_what_was_changed_on_the_server(self):
        """Every kernel but a few is spoilt in a way of its own."""
        good = self.fill(MANY)
        names = sorted(good)
        length = min(map(len, good.values()))
        rest = iter(names)
        bad = {}
        for offset in (0, 7, 8, 9, 15, 16, 17, 31, 46, 47, SEAL, SEAL + 1, SEAL + 8, SEAL + 63, SEAL + 64, SEAL + 200, 1000,
                       length // 2, length - 2, length - 1):
            name = next(rest)
            bad[name] = flip(good[name], offset, offset % 8)
        for count in (0, 1, 7, 8, 9, 47, 48, 49, 100, 1000, length - 1):
            name = next(rest)
            bad[name] = good[name][:count]
        for change in (lambda value: value[SEAL:],          # unsigned
                       lambda value: value + b"\0",
                       lambda value: value[:SEAL] + value,  # sealed twice
                       lambda value: bytes(len(value)),
                       lambda value: value[:SEAL] + bytes(len(value) - SEAL),
                       lambda value: b"x" * 1000000):
            name = next(rest)
            bad[name] = change(good[name])
        one, other = next(rest), next(rest)
        bad[one], bad[other] = good[other], good[one]
        self.assertGreaterEqual(len(list(rest)), 5)  # the others are good
        self.refused({**good, **bad}, bad, MANY)

    def test_a_value_of_another_type(self):
        """It is one value that is wrong, not the server: the others are read."""
        values = self.fill(SIX)
        name = sorted(values)[0]
        self.server.ask("DEL", name)
        self.server.ask("LPUSH", name, "x")
        totals = self.warm(SIX, self.url, jobs=1)
        self.assert_right(totals, SIX)
        self.assertGreaterEqual(totals["stats"]["remote_refused"] + totals["stats"]["remote_failures"], 1)
        self.assertEqual(len(totals["told"]), 1, totals["told"])
        self.assertEqual((totals["compiled"], totals["stats"]["hits_remote"]), (1, 5))


class RedisFaults(Faults, RedisTest):
    endless = b"+"
    wrong_answers = (b"*1000000000\r\n", b"$99999999999\r\n", b"$4294967296\r\n", b"$67108864\r\nxx", b"$-2\r\n",
                     b"$x\r\n", b"$\r\n", b"$5\r\nhello", b"-ERR x\r\n", b":5\r\n", b"+OK\r\n", b"_\r\n", b"%1000000\r\n",
                     b"*1\r\n*1\r\n*1\r\n" * 9, b"$" + b"0" * 1000, b"$-1\r\n" * 50, b"\0",
                     b"HTTP/1.1 400 Bad Request\r\n\r\n")

    def test_many_callers_at_once_are_one_failure(self):
        """Eight that wait while a server is silent for a moment must not keep it off for two to the eighth seconds."""
        line = MANY.replace("block=32", "block=512,480,448,416,384,352,320,288,256,224,192,160,32")  # more than a second's work
        self.fill(line)
        with Proxy(self.server.port, servers.silent_at_first(0.4)) as proxy:
            totals = self.warm(line, self.server.url(proxy.port), jobs=8)
        self.assert_right(totals, line)
        self.assertGreaterEqual(totals["stats"]["remote_failures"], 1)
        self.assertGreaterEqual(totals["stats"]["hits_remote"], 1)

    def test_logins_are_answered_as_badly(self):
        """What comes before the first call is read with the same care."""
        for answer in (b"$2000000000\r\n" + b"x" * 100000, b"*2000000000\r\n", b"+\n" * 1000, b"", b"-ERR no\r\n"):
            with self.subTest(answer=answer[:20]), Proxy(self.server.port, servers.answers(answer)) as proxy:
                self.assert_off(self.warm(SIX, self.server.url(proxy.port, login=":password@", number="/2"), jobs=1))

    def test_lists_are_not_waited_for(self):
        """No question has a list for an answer: its length alone, which may be huge, ends the connection."""
        for answer in (b"*1000000000\r\n", b"*1\r\n", b"%1\r\n"):
            totals = self.through(servers.answers(answer), line=ONE)
            self.assertIn("Protocol error", totals["told"][0])

    def test_greetings(self):
        """Bytes that nobody asked for end a connection; they are no answer to the next question."""
        self.fill(TWO)

        def greets(proxy, client, server):
            client.sendall(b"+HELLO\r\n" * 3)
            servers.passes(proxy, client, server)

        self.assert_bounded(self.through(greets, line=TWO), TWO)


class RedisRights(RedisTest):
    """Passwords, and servers that take no writes."""

    def configure(self, **settings):
        for name, value in settings.items():
            name = name.replace("_", "-")
            self.addCleanup(self.server.ask, "CONFIG", "SET", name, self.server.ask("CONFIG", "GET", name)[1])
            self.server.ask("CONFIG", "SET", name, value)

    def user(self, name, *rights):
        self.server.ask("ACL", "SETUSER", name, "reset", "on", f">{name}-password", "~*", *rights)
        self.addCleanup(self.server.ask, "ACL", "DELUSER", name)
        return self.server.url(login=f"{name}:{name}-password@")

    def test_a_password(self):
        self.configure(requirepass="pass@w/or:d%")
        self.server.ask("AUTH", "pass@w/or:d%")
        url = self.server.url(login=":pass%40w%2For:d%25@")
        self.assertEqual(self.warm(TWO, url, "--push")["pushed"], 2)
        self.assert_remote(self.warm(TWO, url), TWO)
        self.assertTrue(self.doctor_row(url)["ok"])
        for login in (":hunter-22@", "somebody:hunter-22@", ""):
            with self.subTest(login=login):
                totals = self.warm(TWO, self.server.url(login=login), jobs=1, KILN_LOG="debug")
                self.assert_compiled(totals, TWO)
                self.assertEqual(sum("warning" in row for row in totals["told"]), 1)
                self.assertIn("Permission denied", totals["told"][0])
                self.assertNotIn("hunter", json.dumps(totals))
        url = self.server.url(login=":hunter-22@")
        row = self.doctor_row(url)
        self.assertFalse(row["ok"])
        self.assertNotIn("hunter", json.dumps(row))
        totals = self.warm(TWO, url, "--push", status=1)
        self.assertEqual(totals["not_pushed"], 2)
        self.assertNotIn("hunter", json.dumps(totals))

    def assert_reads_only(self, url, filled=TWO, more=SIX):
        """Of `more` those of `filled` are read, the others are compiled and named as not pushed; builds do not fail."""
        present = set(self.reference(filled)) & set(self.reference(more))
        missing = len(self.reference(more)) - len(present)
        self.assert_remote(self.warm(filled, url), filled)
        self.kiln("show", "op=add dtype=f32 target=sm_90", "--ptx", "--cache-dir", self.fresh(), env=self.remote_env(url))
        before = self.server.names()
        for cache, compiled, read in ((self.fresh(), missing, len(present)), (self.copy_of_reference(more), 0, 0)):
            totals = self.warm(more, url, "--push", status=1, jobs=1, cache=cache)
            self.assert_right(totals, more)
            self.assertEqual((totals["compiled"], totals["stats"]["hits_remote"]), (compiled, read), totals["told"])
            self.assertEqual((totals["pushed"], totals["not_pushed"]), (0, missing), totals["told"])
            self.assertEqual(len(self.named(totals)), missing)
            self.assertLessEqual(sum("warning" in told for told in totals["told"]), 1)
        self.assertEqual(self.server.names(), before)
        self.assert_remote(self.warm(filled, url), filled)

    def test_a_full_server(self):
        self.fill(TWO)
        self.configure(maxmemory="100kb", maxmemory_policy="noeviction")
        self.assert_reads_only(self.url)

    def test_a_replica(self):
        self.fill(TWO)
        self.server.ask("REPLICAOF", servers.HOST, 1)
        self.addCleanup(self.server.ask, "REPLICAOF", "NO", "ONE")
        self.assert_reads_only(self.url)

    def test_a_user_who_may_only_read(self):
        self.fill(TWO)
        self.assert_reads_only(self.user("reader", "+get", "+exists"))

    def test_a_user_without_scripts(self):
        """Leases that cannot be given back end by themselves; they must not keep others waiting who find the entry."""
        url = self.user("plain", "+get", "+set", "+exists")
        self.assertEqual(self.warm(TWO, url, "--push")["pushed"], 2)
        start = time.monotonic()
        self.assert_remote(self.warm(TWO, url, "--push"), TWO)
        self.assertLess(time.monotonic() - start, 5)


# ---- Leases

class Leases(RedisTest):
    """One machine compiles a kernel for all."""

    keys = [f"op={op} dtype={dtype} target=sm_90" for op in ("hardsigmoid", "relu6", "copy", "hardtanh(-1,1)")
            for dtype in ("f32", "f16", "bf16")]
    tries = 3  # on a busy machine an answer may come too late, and then a kernel is compiled twice, as it should be
    # The same keys as a line for the reference
    line = "op=hardsigmoid,relu6,copy,hardtanh(-1,1) dtype=f32,f16,bf16 target=sm_90"

    def start(self, *args, cache=None, **options):
        return subprocess.Popen([KILN, *args, "--cache-dir", cache or self.fresh()], env=self.remote_env(self.url),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def start_fleet(self, count, *args):
        """Processes that ask for all keys, each in an order of its own."""
        fleet = []
        for seed in range(count):
            keys = list(self.keys)
            random.Random(seed).shuffle(keys)
            cache = self.fresh()
            fleet.append((self.start("warm", *keys, "--json", "--stats", *args, cache=cache), cache))
        return fleet

    def end_fleet(self, fleet):
        done = []
        for process, cache in fleet:
            output, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, errors)
            totals = json.loads(output)
            totals["cache"] = cache
            self.assert_right(totals, self.line)
            done.append(totals)
        return done

    def leases(self):
        return [name.decode() for name in self.server.ask("KEYS", "kiln1:*:lease")]

    def lease_name(self, line=ONE):
        return digest_name(next(iter(self.reference(line)))) + ":lease"

    def wait_for_lease(self, process):
        """Names of leases as soon as there is one, or none where the process has ended."""
        while process.poll() is None:
            names = self.leases()
            if names:
                return names
        return []

    def test_a_fleet_compiles_each_key_once(self):
        self.reference(self.line)
        for _ in range(self.tries):
            self.server.clear()
            done = self.end_fleet(self.start_fleet(6, "--push"))
            if not any(totals["stats"]["remote_failures"] for totals in done):
                break
        self.assertEqual(sum(totals["stats"]["remote_failures"] for totals in done), 0)
        self.assertEqual(sum(totals["compiled"] for totals in done), len(self.keys))
        self.assertEqual(sum(totals["stats"]["compiles"] for totals in done), len(self.keys))
        self.assertGreater(sum(totals["stats"]["remote_lease_waits"] for totals in done), 0)
        self.assertEqual(self.leases(), [])

        for totals in self.end_fleet(self.start_fleet(6)):
            self.assertEqual((totals["compiled"], totals["stats"]["hits_remote"]), (0, len(self.keys)))

    def test_plain_builds_compile_once(self):
        for _ in range(self.tries):
            self.server.clear()
            sources, told = [], b""
            for process in [self.start("show", ONE, "--json") for _ in range(6)]:
                output, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 0, errors)
                sources.append(json.loads(output)["source"])
                told += errors
            if b"timed out" not in told:
                break
        self.assertEqual((told, sorted(sources)), (b"", ["compiled"] + ["remote"] * 5))

    def test_an_entry_that_comes_before_the_lease(self):
        """Between the last look and the lease its holder may be done: who gets the lease then must look once more."""
        values = self.fill(ONE)
        self.server.clear()
        put = RedisClient(self.server.path)  # of the proxy's thread
        self.addCleanup(put.close)

        def before(data):
            if b"\r\nNX\r\n" in data:
                for name, value in values.items():
                    put("SET", name, value)
                    put("SET", *on_server(name))

        with Proxy(self.server.port, servers.passes, before) as proxy:
            totals = self.warm(ONE, self.server.url(proxy.port), "--push", jobs=1)
        self.assertEqual(totals["stats"]["remote_leases"], 1)  # so the proxy has seen it
        self.assert_remote(totals, ONE)

    def test_a_killed_machine(self):
        self.reference(self.line)
        for _ in range(10):
            self.server.clear()
            victim = self.start("warm", *self.keys, "--push", "-j", "1")
            self.wait_for_lease(victim)
            victim.send_signal(signal.SIGKILL)
            victim.communicate()
            left = self.leases()
            if left:
                break
        self.assertEqual(len(left), 1)
        rest = self.server.ask("PTTL", left[0])
        self.assertTrue(0 < rest <= 60000, rest)  # it ends by itself, but not during a test
        self.server.ask("PEXPIRE", left[0], 1500)
        pushed = len(self.server.names()) - 1
        start = time.monotonic()
        done = self.end_fleet(self.start_fleet(2, "--push"))
        took = time.monotonic() - start
        self.assertEqual(sum(totals["compiled"] for totals in done), len(self.keys) - pushed // 2)
        self.assertTrue(0.5 < took < 10, took)
        self.assertEqual(self.leases(), [])

    def test_a_build_waits_for_a_lease_and_then_compiles(self):
        self.reference(ONE)
        self.server.ask("SET", self.lease_name(), "of another", "PX", 1500)
        start = time.monotonic()
        totals = self.warm(ONE, self.url, "--push")
        took = time.monotonic() - start
        self.assert_compiled(totals, ONE)
        self.assertTrue(1 < took < 10, took)
        self.assertGreaterEqual(totals["stats"]["remote_lease_waits"], 2)
        self.assertEqual((totals["stats"]["remote_leases"], totals["pushed"], self.leases()), (1, 1, []))

    def test_a_build_waits_for_an_entry(self):
        values = self.fill(ONE)
        self.server.clear()
        self.server.ask("SET", self.lease_name(), "of another", "PX", 20000)
        process = self.start("show", ONE, "--json")
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        for name, value in values.items():
            self.server.put(name, value)
            self.server.put(*on_server(name))
        start = time.monotonic()
        output, errors = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual((json.loads(output)["source"], errors), ("remote", b""))
        self.assertEqual(self.server.get(self.lease_name()), b"of another")

    def test_a_lease_that_comes_too_late_is_given_back(self):
        """The server has granted it, and nobody waits for its answer any more."""
        def late(proxy, client, server):
            while data := server.recv(65536):
                if data == b"+OK\r\n":
                    proxy.stopped.wait(0.4)
                client.sendall(data)

        with Proxy(self.server.port, late) as proxy:
            self.assert_compiled(self.warm(ONE, self.server.url(proxy.port), "--push", jobs=1, status=None), ONE)
        until = time.monotonic() + 5
        while self.leases() and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(self.leases(), [])

    def test_who_pushes_nothing_waits_for_nobody(self):
        self.reference(ONE)
        self.server.ask("SET", self.lease_name(), "of another", "PX", 20000)
        start = time.monotonic()
        self.assert_compiled(self.warm(ONE, self.url), ONE)
        self.assertLess(time.monotonic() - start, 5)

    def test_only_its_own_lease_is_given_back(self):
        name = self.lease_name()
        for _ in range(10):
            self.server.clear()
            process = self.start("show", ONE, "--json")
            if self.wait_for_lease(process) and self.server.ask("SET", name, "of another", "XX", "PX", 20000) == "OK":
                break
            process.communicate()
        _, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, errors), (0, b""))
        self.assertEqual(self.server.get(name), b"of another")
        self.assertLessEqual(set(self.reference(ONE)), self.server.names())

    def test_a_server_that_goes_while_a_build_waits(self):
        with Proxy(self.server.port, servers.passes) as proxy:
            self.reference(ONE)
            self.server.ask("SET", self.lease_name(), "of another", "PX", 20000)
            timer = threading.Timer(0.7, proxy.stop)
            timer.start()
            start = time.monotonic()
            totals = self.warm(ONE, self.server.url(proxy.port), "--push", status=1)
            timer.join()
        self.assertLess(time.monotonic() - start, 5)
        self.assert_compiled(totals, ONE)
        self.assertEqual((totals["pushed"], totals["not_pushed"]), (0, 1))


class RedisWisdom(Wisdom, RedisTest):
    def test_many_push_at_once(self):
        """No machine's records are lost."""
        caches = [self.machine(record(10 + k, op=f"hardtanh(-{k + 1},1)")) for k in range(8)]
        pushes = [subprocess.Popen([KILN, "wisdom", "push", "--cache-dir", cache], env=self.remote_env(self.url),
                                   stdout=subprocess.DEVNULL) for cache in caches]
        self.assertEqual([process.wait(60) for process in pushes], [0] * 8)
        cache = self.fresh()
        self.assertEqual(self.move("pull", cache)["added"], 8)


# ---- nginx

class HttpWisdom(Wisdom, NginxTest):
    pass


class HttpExchange(Exchange, NginxTest):
    def test_only_push_puts(self):
        before = len(self.server.requests())
        self.warm(TWO, self.url)
        asked = self.server.requests()[before:]
        self.assertGreater(len(asked), 0)
        self.assertEqual([row for row in asked if not row.startswith(("GET ", "HEAD "))], [])

    def test_a_path_with_and_without_a_slash(self):
        self.fill(ONE)
        self.assert_remote(self.warm(ONE, self.server.url(path="/kernels/")), ONE)
        self.warm(ONE, self.server.url(path="/kernels/of/us"), "--push")
        self.assert_remote(self.warm(ONE, self.server.url(path="/kernels/of/us/")), ONE)
        shutil.rmtree(os.path.join(self.server.files, "of"))


class HttpTrust(Trust, NginxTest):
    def test_files_that_were_changed(self):
        good = self.fill(SIX)
        names = sorted(good)
        bad = {names[0]: b"", names[1]: good[names[1]][:-1], names[2]: good[names[2]] + b"\n",
               names[3]: flip(good[names[3]], 20), names[4]: flip(good[names[4]], 4000, 7)}
        self.refused({**good, **bad}, bad, SIX)


class HttpFaults(Faults, NginxTest):
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n"
    wrong_answers = (b"*1000000000\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
                     b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                     b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\n\r\n",
                     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n",
                     b"HTTP/1.1 100 Continue\r\n\r\n" * 20, b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
                     b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
                     b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100000, b"HTTP/9.9 999 x\r\n\r\n", b"\0")

    def test_locations(self):
        """An error is an error, and redirections are not followed; 404 is an answer."""
        self.fill(TWO)
        for path, word in (("/closed", "Permission denied"), ("/elsewhere", "Remote I/O error"),
                           ("/broken", "Remote I/O error")):
            totals = self.warm(TWO, self.server.url(path=path), jobs=1)
            self.assert_compiled(totals, TWO)
            self.assertEqual(len(totals["told"]), 1)
            self.assertIn(word, totals["told"][0])
        self.assertFalse(self.doctor_row(self.server.url(path="/broken"))["ok"])
        self.assertEqual(self.warm(TWO, self.server.url(path="/nothing"))["told"], [])


class HttpRights(NginxTest):
    assert_reads_only = RedisRights.assert_reads_only

    def test_a_full_server(self):
        self.fill(TWO)
        self.assert_reads_only(self.server.url(path="/full"))

    def test_a_server_that_is_only_read(self):
        self.fill(TWO)
        self.assert_reads_only(self.server.url(path="/readonly"))


# ---- Without a server

class Settings(RemoteTest):
    url = f"redis://{servers.HOST}:1"  # where nobody listens

    def test_push_needs_a_remote(self):
        totals = self.warm(ONE, None, "--push", status=1)
        self.assert_compiled(totals, ONE)
        self.assertEqual(totals["told"], ["kiln: push: there is no remote"])

    def test_push_says_why_the_remote_is_not_used(self):
        totals = self.warm(ONE, self.url, "--push", secret=None, status=1)
        self.assertTrue(totals["told"][-1].startswith("kiln: push: there is no remote: there is no secret"), totals["told"])

    def test_push_and_check(self):
        self.assert_bad(("warm", ONE, "--push", "--check"), "--push", "--check")

    def test_bad_secrets(self):
        cache = self.copy_of_reference(ONE)
        os.mkfifo(self.path("fifo"), 0o600)
        for path, word in ((self.path("none"), "No such file"),
                           (self.secret_file("group", SECRET, mode=0o640), "chmod 600"),
                           (self.secret_file("world", SECRET, mode=0o604), "chmod 600"),
                           (self.secret_file("short", "x" * 15), "15 characters: expected 16 to 1024"),
                           (self.secret_file("long", "x" * 1025), "1025 characters"),
                           (self.secret_file("second", SECRET, "short"), "5 characters"),
                           (self.secret_file("three", SECRET, OTHER_SECRET, SECRET), "more than 2 secrets"),
                           (self.secret_file("binary", "\1\2\377" * 10), "not printable"),
                           (self.secret_file("zero", "\0" * 32), "not printable"),
                           (self.secret_file("empty"), "no secret"),
                           (self.secret_file("large", *["x" * 1000] * 100), "too large"),
                           (self.dir, ""), (self.path("fifo"), "")):
            with self.subTest(path=path):
                totals = self.warm(ONE, self.url, secret=path, cache=cache)
                self.assert_unused(totals, ONE, path, word)
                self.assertNotIn(SECRET, totals["told"][0])
        self.assert_compiled(self.warm(ONE, self.url, secret=self.path("none")), ONE)
        row = self.doctor_row(self.url, secret=self.path("none"))
        self.assertFalse(row["ok"], row)
        self.assertIn("No such file", row["detail"])

    def test_good_secrets(self):
        """A blank line, a missing last newline and the shortest and longest secrets are fine: the server is asked."""
        for name, text in (("blank", f"\n{SECRET}\n\n"), ("open", SECRET), ("least", "x" * 16), ("most", "x" * 1024)):
            with self.subTest(name=name):
                path = self.secret_file(name)
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
                totals = self.warm(ONE, self.url, secret=path)
                self.assert_compiled(totals, ONE)
                self.assertEqual(totals["stats"]["remote_failures"], 1)

    def test_bad_urls(self):
        cache = self.copy_of_reference(ONE)
        for url, *words in (("ftp://x", "expected redis://", "redis+unix://", "http://"),
                            ("cache.example.com", "expected redis://"), ("redis://", "expected redis://"),
                            ("redis://host:99999", "expected", "host[:port]"), ("redis://host:0", "host[:port]"),
                            ("redis://host:x", "host[:port]"), ("redis://[::1", "host[:port]"),
                            ("redis://h/notanumber", "expected redis://", "/number"), ("redis://h/-1", "/number"),
                            ("redis://h%zz", "%XX"), ("redis+unix://", "redis+unix:///path"),
                            ("http://host/?q=1", "expected http", "without ?"), ("http://host/#x", "without ? and #"),
                            ("http://host/" + "x" * 1000, "expected http")):
            with self.subTest(url=url[:40]):
                self.assert_unused(self.warm(ONE, url, cache=cache), ONE, *words)
        self.assert_compiled(self.warm(ONE, "ftp://x"), ONE)
        row = self.doctor_row("ftp://x")
        self.assertFalse(row["ok"])
        self.assertIn("expected", row["detail"])

    def test_urls_that_http_cannot_ask(self):
        cache = self.copy_of_reference(ONE)
        for url in ("http://", "http://host:99999/", "http:///path"):
            with self.subTest(url=url):
                self.assert_unused(self.warm(ONE, url, cache=cache), ONE, "expected http")

    def test_a_password_in_a_bad_url_is_not_shown(self):
        for url in ("redis://:hunter-22@host:99999", "redis://:hunter/hunter-22@host",
                    "http://me:hunter/hunter-22@127.0.0.1:1/", "http://me:hunter-22@host/?x",
                    "http://me:hunter-22@127.0.0.1:1/", "ftp://me:hunter-22@host"):
            with self.subTest(url=url):
                warmed = self.warm(ONE, url, "--push", status=1, KILN_LOG="debug")
                self.assertNotIn("hunter", json.dumps(warmed))
        self.assertNotIn("hunter", json.dumps(self.doctor_row("http://me:hunter/hunter-22@127.0.0.1:1/")))

    def test_trust_is_on_or_off(self):
        result = self.kiln("warm", ONE, env=self.remote_env(self.url, KILN_TRUST_REMOTE="yes"), status=None)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("KILN_TRUST_REMOTE", result.stderr)
        self.assertIn("on or off", result.stderr)

    def test_no_remote_is_no_remote(self):
        totals = self.warm(ONE, "")
        self.assert_compiled(totals, ONE)
        self.assertEqual(totals["told"], [])
        rows = self.kiln_json("doctor", env=self.remote_env(None), status=None)["findings"]
        self.assertEqual([row for row in rows if row["name"] == "remote"], [])

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "only root may replace the name server")
    def test_a_name_server_that_is_silent(self):
        """A process ends when its work is done, though the system still looks for the server's name."""
        self.reference(ONE)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            try:
                silent.bind(("127.0.0.99", 53))
            except OSError as error:
                self.skipTest(f"port 53: {error}")
            with open(self.path("resolv.conf"), "w", encoding="ascii") as file:
                file.write("nameserver 127.0.0.99\noptions timeout:3 attempts:1\n")
            mount = f"mount --bind {self.path('resolv.conf')} /etc/resolv.conf"
            if subprocess.run(["unshare", "-m", "sh", "-c", mount], stderr=subprocess.DEVNULL, check=False).returncode != 0:
                self.skipTest("no mount namespace")
            for url in ("redis://cache.example.com", "http://cache.example.com/kernels"):
                with self.subTest(url=url):
                    start = time.monotonic()
                    subprocess.run(["unshare", "-m", "sh", "-c", f'{mount} && exec "$0" "$@"', KILN, "warm", ONE,
                                    "--cache-dir", self.fresh()], env=self.remote_env(url), check=True, timeout=60,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
                    self.assertLess(time.monotonic() - start, 2.5)


if __name__ == "__main__":
    unittest.main()
