"""kiln watch: files are saved in every way that editors do it, broken and mended, and what is shown follows."""

import ctypes
import json
import os
import pty
import queue
import select
import shutil
import signal
import subprocess
import termios
import threading
import time
import unittest

from support import FAKE_LIBCUDA, KILN, KilnTest, compiler_builds_for_gpus

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/examples/templates")
PLAIN = """#include "depth.h"
extern "C" __global__ void scale(float *p) { __shared__ float room[DEPTH]; room[threadIdx.x] = *p;
    __syncthreads(); *p = room[1]; }
"""


def example(name):
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
        return file.read()


def exchange(one, other):
    """renameat2 with RENAME_EXCHANGE: each path leads to what the other led to."""
    here = -100  # AT_FDCWD
    if ctypes.CDLL(None, use_errno=True).renameat2(here, os.fsencode(one), here, os.fsencode(other), 2):
        raise unittest.SkipTest("this file system cannot exchange: " + os.strerror(ctypes.get_errno()))


def read_until(terminal, words):
    shown = b""
    while words not in shown:
        if not select.select([terminal], [], [], 120)[0]:
            raise AssertionError(f"{words} was never shown: {shown}")
        shown += os.read(terminal, 4096)
    return shown


class Watching(KilnTest):
    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def save_by_rename(self, name, text):
        os.rename(self.write("." + name + ".new", text), self.path(name))

    def watch(self, *args):
        """Starts the command; its rounds, one JSON object a line, come through next_round."""
        self.process = subprocess.Popen([KILN, "watch", *args, "--json"], env=self.env, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=lambda: [self.lines.put(line) for line in self.process.stdout], daemon=True).start()
        self.addCleanup(self.kill)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def next_round(self, result):
        """The next one that is not unchanged, for a save may be seen as two, unless that is wanted."""
        while True:
            round = json.loads(self.lines.get(timeout=120))
            if result == "unchanged" or round["result"] != "unchanged":
                self.assertEqual(round["result"], result, round)
                return round

    def interrupt(self, number=signal.SIGINT):
        self.process.send_signal(number)
        self.assertEqual(self.process.wait(60), 128 + number)
        self.assertEqual(self.process.stderr.read(), "")


class Templates(Watching):
    def setUp(self):
        super().setUp()
        self.cu, self.c = (example("hardsigmoid256" + end) for end in (".cu", ".c"))
        self.file = self.write("mine.cu", self.cu)
        self.write("mine.c", self.c)

    def once(self, *args, **options):
        return self.kiln_json("watch", self.file, "--once", "--size", "2^16", *args, **options)

    def test_one_round(self):
        round = self.once("block=64,128")
        self.assertEqual([row["asked"].split()[-1] for row in round["rows"]], ["block=64", "block=128"])
        for row in round["rows"]:
            self.assertEqual((row["verified"], row["ms_old"], row["change"]), ("yes", None, None))
            self.assertGreater(row["ms"], 0)
            self.assertGreater(row["of_copy"], 0)
        text = self.kiln("watch", self.file, "--once", "--size", "2^16").stdout.splitlines()
        self.assertIn("on cpu, 2^16 elements", text[0])
        self.assertEqual([len(text), text[1].split()[0], text[2].split()[-1]], [3, "spec", "yes"])

    def test_errors_have_the_users_lines(self):
        self.write("mine.c", self.c.replace("float v", "flot v"))
        self.assertIn("mine.c:17:9: error: unknown type name 'flot'", self.once(status=1)["messages"])
        self.write("mine.c", self.c.replace("6.0f : v", "5.0f : v"))
        round = self.once(status=1)
        self.assertIn("not equal to the op that the template names", round["messages"])
        self.assertEqual((round["rows"][0]["verified"], round["rows"][0]["ms"]), ("failed", None))
        self.write("mine.cu", self.cu.replace("//! tile", "//! tyle"))
        self.assertIn("mine.cu:11: unknown declaration 'tyle'", self.once(status=2)["messages"])
        run = ("run", "template=" + self.file, "--in", "x.npy", "--out", "y.npy")
        self.assert_bad(run, "mine.cu:11: unknown declaration 'tyle'")

    def test_a_gpu_that_is_not_here(self):
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        row = self.once("target=sm_90")["rows"][0]
        self.assertEqual((row["verified"], row["ms"]), ("only compiled", None))
        self.write("mine.cu", self.cu.replace("float v", "flot v"))
        self.assertIn("mine.cu(25): error:", self.once("target=sm_90", status=1)["messages"])

    def test_follows_saves(self):
        self.watch(self.file, "--size", "2^16")
        row = self.next_round("good")["rows"][0]
        self.assertEqual((row["verified"], row["change"]), ("yes", None))

        self.write("mine.c", self.c.replace("i < end", "i != end"))
        row = self.next_round("good")["rows"][0]
        self.assertGreater(row["ms_old"], 0)
        self.assertLessEqual(row["change_low"], row["change"])
        self.assertLessEqual(row["change"], row["change_high"])

        self.save_by_rename("mine.c", self.c.replace("float v", "flot v"))
        round = self.next_round("failed")
        self.assertIn("mine.c:17:9: error", round["messages"])
        kept = round["rows"][0]
        self.assertEqual((kept["verified"], kept["ms"], kept["ms_old"]), ("failed", None, row["ms"]))

        os.utime(self.path("mine.c"))
        self.next_round("unchanged")

        self.save_by_rename("mine.c", self.c.replace("6.0f : v", "5.0f : v"))
        self.assertIn("not equal to", self.next_round("failed")["messages"])

        self.save_by_rename("mine.cu", self.cu.replace("= 256", "= 512"))
        self.next_round("failed")
        self.save_by_rename("mine.c", self.c)
        row = self.next_round("good")["rows"][0]
        self.assertIn("block=512", row["spec"])
        self.assertGreater(row["ms_old"], 0)

        os.remove(self.path("mine.cu"))
        self.assertIn("mine.cu", self.next_round("failed")["messages"])
        self.write("mine.cu", self.cu)
        self.assertIn("block=256", self.next_round("good")["rows"][0]["spec"])
        self.interrupt()

    def test_a_comment_is_no_change(self):
        for target in ["cpu", "sm_90"] if compiler_builds_for_gpus(self) else ["cpu"]:
            with self.subTest(target):
                self.write("mine.cu", self.cu)
                self.write("mine.c", self.c)
                self.watch(self.file, "--size", "2^16", f"target={target}")
                self.assertFalse(self.next_round("good")["rows"][0]["same_code"])
                self.save_by_rename("mine.c", "/* faster\n */\n" + self.c)
                self.save_by_rename("mine.cu", self.cu + "// faster\n")
                row = self.next_round("good")["rows"][0]
                self.assertTrue(row["same_code"])
                change = [row[name] for name in ("change_low", "change", "change_high")]
                self.assertEqual(change, [0, 0, 0] if target == "cpu" else [None] * 3)
                self.interrupt()
        self.write("mine.c", self.c)
        self.watch(self.file, "--size", "2^16", "target=cpu")
        self.next_round("good")
        self.save_by_rename("mine.c", self.c.replace("i < end", "i != end"))
        row = self.next_round("good")["rows"][0]
        self.assertFalse(row["same_code"])
        self.assertLess(row["change_low"], row["change_high"])
        self.interrupt()

    def test_follows_a_directory_that_is_replaced(self):
        """At once, so that the watched path leads somewhere at every moment."""
        new, old = self.path("new"), self.path("watched")
        for directory, cu in ((old, self.cu), (new, self.cu.replace("= 256", "= 512"))):
            os.mkdir(directory)
            self.write(os.path.join(directory, "mine.cu"), cu)
            self.write(os.path.join(directory, "mine.c"), self.c)
        self.watch(os.path.join(old, "mine.cu"), "--size", "2^16")
        self.assertIn("block=256", self.next_round("good")["rows"][0]["spec"])
        exchange(new, old)
        self.assertIn("block=512", self.next_round("good")["rows"][0]["spec"])
        self.write(os.path.join(old, "mine.cu"), self.cu.replace("= 256", "= 128"))
        self.assertIn("block=128", self.next_round("good")["rows"][0]["spec"])
        self.interrupt()

    def test_redraws_on_a_terminal(self):
        main, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (30, 400))
        process = subprocess.Popen([KILN, "watch", self.file, "--size", "2^16"], env=dict(self.env, TERM="xterm"),
                                   stdout=terminal, stderr=terminal)
        os.close(terminal)
        self.addCleanup(process.kill)
        shown = read_until(main, b"yes")
        self.save_by_rename("mine.c", self.c + "oops\n")
        shown += read_until(main, b"mine.c:23:")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        os.close(main)
        self.assertEqual(shown.count(b"\033[3A\r\033[J"), 1, shown)  # the three lines of the first table
        self.assertIn(b"failed", shown)

    def test_lines_are_counted_in_characters(self):
        """The title is two lines of 30 characters, though it has more than 60 bytes; the table is wrapped."""
        folder = "\u00e9" * 20
        os.mkdir(self.path(folder))
        for end in (".cu", ".c"):
            os.rename(self.path("mine" + end), self.path(f"{folder}/mine{end}"))
        main, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (60, 30))
        process = subprocess.Popen([KILN, "watch", f"{folder}/mine.cu", "--size", "2^16"], cwd=self.dir,
                                   env=dict(self.env, TERM="xterm"), stdout=terminal, stderr=terminal)
        os.close(terminal)
        self.addCleanup(process.kill)
        first = read_until(main, b"yes\r\n").decode()
        lines = sum(-(-len(line) // 30) for line in first.splitlines())
        self.assertEqual((len(first.splitlines()[0]) + 29) // 30, 2, first)
        self.write(f"{folder}/mine.c", self.c + "oops\n")
        second = read_until(main, b"mine.c:23:")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        os.close(main)
        self.assertIn(f"\033[{lines}A\r\033[J".encode(), second)

    def test_wrong_usage(self):
        self.assert_bad(("watch",), "no FILE given")
        self.assert_bad(("watch", "mine.txt"), "nor FILE.cu")
        self.assert_bad(("watch", self.path("none.cu")), "none.cu cannot be read")
        self.assert_bad(("watch", self.file, "-I", self.dir), "declares a template", "`option` lines")
        self.assert_bad(("watch", self.file, "--size", "many"), "--size many")
        for more, words in ((("--size", "5", "--size", "6"), "--size n is given twice"),
                            (("--arg", "a=1"), "--arg a=1: the kernel takes no numbers")):
            self.assertIn(words, self.kiln("watch", self.file, "--once", *more, status=2).stderr)
        plain = self.write("plain.cu", PLAIN)
        self.assert_bad(("watch", plain, "block=64"), "declares no template", "block=64")
        for more in (("--size", "5"), ("--arg", "a=1")):
            self.assert_bad(("watch", plain, *more), "declares no template", "--size and --arg")


class Saves(Watching):
    """How files change, whatever is in them. `block` of the spec tells which version a round has seen."""

    def setUp(self):
        super().setUp()
        self.cu, self.c = (example("hardsigmoid256" + end) for end in (".cu", ".c"))

    def version(self, block):
        return self.cu.replace("= 256", f"= {block}")

    def fill(self, directory, block):
        os.makedirs(self.path(directory))
        self.write(os.path.join(directory, "mine.c"), self.c)
        return self.write(os.path.join(directory, "mine.cu"), self.version(block))

    def follow(self, file, block):
        self.watch(file, "--size", "2^10")
        self.assert_block(block)

    def assert_block(self, block):
        self.assertIn(f"block={block}", self.next_round("good")["rows"][0]["spec"])

    def hold_compiles(self):
        """From now on each compile waits until self.release is called."""
        hold = self.write("hold", "")
        self.release = lambda: os.remove(hold)
        script = f"#!/bin/sh\nwhile [ -e {hold} ]; do touch {self.path('held')}; sleep 0.02; done\nexec cc \"$@\"\n"
        os.chmod(self.write("slow-cc", script), 0o700)
        self.env["KILN_CC"] = self.path("slow-cc")

    def await_compile(self):
        for _ in range(3000):
            if os.path.exists(self.path("held")):
                return
            time.sleep(0.02)
        self.fail("nothing is compiled")

    def test_many_saves_are_few_rounds(self):
        file = self.fill("dir", 32)
        self.follow(file, 32)
        for block in range(64, 1024, 32):
            self.write(file, self.version(block))
            time.sleep(0.005)
        rounds = 1
        while f"block={block}" not in self.next_round("good")["rows"][0]["spec"]:
            rounds += 1
        self.assertLess(rounds, 10)
        self.interrupt()

    def test_other_files_are_no_change(self):
        file = self.fill("dir", 256)
        self.follow(file, 256)
        for name in ("notes", ".mine.cu.swp", "mine.cu~", "4913"):
            self.write(os.path.join("dir", name), "")
        time.sleep(0.5)
        os.utime(file)
        self.assertEqual(self.next_round("unchanged")["round"], 2)
        self.interrupt()

    def test_directories_that_go_and_come(self):
        file = self.fill("up/dir", 256)
        self.follow(file, 256)
        os.rename(self.path("up"), self.path("gone"))
        self.next_round("failed")
        self.fill("new/dir", 512)
        os.rename(self.path("new"), self.path("up"))
        self.assert_block(512)
        shutil.rmtree(self.path("up"))
        self.next_round("failed")
        self.fill("up/dir", 128)
        self.assert_block(128)
        self.write(file, self.version(64))
        self.assert_block(64)
        self.interrupt()

    def test_links(self):
        self.fill("one", 256)
        self.fill("two", 512)
        os.mkdir(self.path("links"))
        for name in ("mine.cu", "mine.c"):
            os.symlink(self.path("one/" + name), self.path("links/" + name))
        self.follow(self.path("links/mine.cu"), 256)
        self.write("one/mine.cu", self.version(128))
        self.assert_block(128)
        os.symlink(self.path("two/mine.cu"), self.path("links/new"))
        os.rename(self.path("links/new"), self.path("links/mine.cu"))
        self.assert_block(512)
        self.write("two/mine.cu", self.version(64))
        self.assert_block(64)
        self.interrupt(signal.SIGTERM)

    def test_a_link_to_a_directory(self):
        self.fill("one", 256)
        self.fill("two", 512)
        os.symlink("one", self.path("now"))
        self.follow(self.path("now/mine.cu"), 256)
        os.symlink("two", self.path("next"))
        os.rename(self.path("next"), self.path("now"))
        self.assert_block(512)
        self.write("two/mine.cu", self.version(64))
        self.assert_block(64)
        self.interrupt()

    def test_a_save_during_a_round(self):
        self.hold_compiles()
        file = self.fill("dir", 256)
        self.watch(file, "--size", "2^10")
        self.await_compile()
        self.write(file, self.version(512))
        self.release()
        self.assert_block(256)
        self.assert_block(512)
        self.interrupt()

    def test_a_save_after_more_events_than_are_kept(self):
        with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as limit:
            kept = int(limit.read())
        if not 8192 <= kept <= 100000:
            self.skipTest(f"the system keeps {kept} events")
        self.hold_compiles()
        file = self.fill("dir", 256)
        self.watch(file, "--size", "2^10")
        self.await_compile()
        names = [self.write("dir/.one", ""), self.path("dir/.two")]
        for i in range(kept // 2 + 100):  # two events each
            os.rename(names[i % 2], names[1 - i % 2])
        self.write(file, self.version(512))
        self.release()
        self.assert_block(256)
        self.assert_block(512)
        self.interrupt()

    def test_an_interrupt_during_a_round(self):
        self.hold_compiles()
        self.watch(self.fill("dir", 256), "--size", "2^10")
        self.await_compile()
        self.process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        self.assertIsNone(self.process.poll())
        self.release()
        self.assertEqual(self.process.wait(60), 130)
        self.assert_block(256)

    def test_a_second_interrupt_during_a_round(self):
        self.hold_compiles()
        self.watch(self.fill("dir", 256), "--size", "2^10")
        self.await_compile()
        self.process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        self.process.send_signal(signal.SIGINT)
        self.assertEqual(self.process.wait(60), -signal.SIGINT)
        self.release()


class ShortKernels(Watching):
    """On the stand-in driver, which computes relu6, in made-up time: 1.5 us for a launch, and 4 us for the host to submit one."""

    KINDS = (("plain.cu", "//! reference relu6\n//! tile block\n", "n", "5000"), ("named.cu", "", "n", "n=5000"),
             ("own.cu", "", "max(n, 1)", "n=5000"))

    def template(self, declared, shape, body=""):
        return (f"//! template quick\n{declared}//! dtype f32\n//! size n\n//! arg out out f32[{shape}]\n//! arg x in f32[n]\n"
                "//! arg n uint64 = n\n//! grid (n + block - 1) / block\n"
                "//! param block 32..1024 step 32 = 256\n//! entry quick align 4\n"
                f'extern "C" __global__ void quick(float *out, const float *x, unsigned long long n) {{ {body} }}\n')

    def test_are_timed_as_the_device_runs_them(self):
        if not FAKE_LIBCUDA or not compiler_builds_for_gpus(self):
            self.skipTest("no stand-in driver, or no NVRTC")
        if os.environ.get("KILN_SANITIZE") == "thread":
            self.skipTest("ThreadSanitizer does not see the locks inside NVRTC")
        self.env.update(KILN_DEVICE="cuda:0", KILN_LIBCUDA=FAKE_LIBCUDA, KILN_FAKE_CUDA="relu6=1,launch=1500,submit=4000")
        for file, declared, shape, size in self.KINDS:
            with self.subTest(file):
                self.watch(self.write(file, self.template(declared, shape)), "--size", size)
                row = self.next_round("good")["rows"][0]
                self.assertAlmostEqual(row["ms"], 0.0015, delta=0.0001)
                self.assertAlmostEqual(row["of_copy"], 1.0 / 1.5, delta=0.02)
                self.write(file, self.template(declared, shape, "out[n] = x[0];"))  # the last version is of another service
                row = self.next_round("good")["rows"][0]
                self.assertAlmostEqual(row["ms"], 0.0015, delta=0.0001)
                self.assertAlmostEqual(row["ms_old"], 0.0015, delta=0.0001)
                self.assertAlmostEqual(row["change"], 0, delta=0.02)
                self.interrupt()


class Sources(Watching):
    def setUp(self):
        super().setUp()
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        os.makedirs(self.path("inc/deep"))
        self.write("inc/deep/depth.h", "#define DEPTH 32\n")
        self.write("inc/depth.h", '#include "deep/depth.h"\n')
        self.file = self.write("plain.cu", PLAIN)
        self.args = (self.file, "-I", self.path("inc"), "--target", "sm_90")

    def test_one_round(self):
        row = self.kiln_json("watch", *self.args, "--once")["rows"][0]
        self.assertEqual((row["function"], row["shared_bytes"], row["shared_bytes_old"]), ("scale", 128, None))
        self.assertIn("nothing is timed", self.kiln("watch", *self.args, "--once").stdout)
        self.write("plain.cu", PLAIN + "\n\nint x = ;\n")
        result = self.kiln("watch", *self.args, "--once", status=1)
        self.assertIn("plain.cu(6): error:", result.stderr.splitlines()[0])

    def test_follows_the_file_and_its_headers(self):
        self.watch(*self.args)
        self.assertEqual(self.next_round("good")["rows"][0]["shared_bytes"], 128)

        self.write("inc/deep/depth.h", "#define DEPTH 64\n")
        row = self.next_round("good")["rows"][0]
        self.assertEqual((row["shared_bytes_old"], row["shared_bytes"]), (128, 256))

        os.utime(self.path("inc/depth.h"))
        self.next_round("unchanged")

        self.save_by_rename("plain.cu", PLAIN.replace("room[1]", "rom[1]"))
        round = self.next_round("failed")
        self.assertIn("plain.cu(3): error:", round["messages"])
        self.assertEqual(round["rows"][0]["shared_bytes"], 256)
        self.save_by_rename("plain.cu", PLAIN.replace("room[1]", "room[2]"))
        self.assertEqual(self.next_round("good")["rows"][0]["shared_bytes"], 256)

        os.makedirs(self.path("inc/new"))  # a directory that was not there is watched, too
        self.write("inc/depth.h", '#include "new/depth.h"\n')
        self.assertIn("new/depth.h", self.next_round("failed")["messages"])
        self.write("inc/new/depth.h", "#define DEPTH 16\n")
        self.assertEqual(self.next_round("good")["rows"][0]["shared_bytes"], 64)

        os.rename(self.path("inc"), self.path("gone"))  # as when another branch is checked out
        self.next_round("failed")
        os.rename(self.path("gone"), self.path("inc"))
        self.assertEqual(self.next_round("good")["rows"][0]["shared_bytes"], 64)
        self.interrupt()

    def test_follows_headers_beside_the_file(self):
        os.makedirs(self.path("src/sub"))
        self.write("src/sub/depth.h", "#define DEPTH 32\n")
        self.write("src/k.cu", PLAIN.replace('"depth.h"', '"sub/depth.h"'))
        self.watch(self.path("src/k.cu"), "--target", "sm_90")
        self.assertEqual(self.next_round("good")["rows"][0]["shared_bytes"], 128)
        self.write("src/new.h", "#define MORE 1\n")  # its include is new, and so its first edit counts
        self.write("src/k.cu", '#include "new.h"\n' + PLAIN.replace('"depth.h"', '"sub/depth.h"').replace("float room", "float more[MORE], room"))
        self.next_round("good")
        self.write("src/new.h", "#define MORE bad\n")
        self.assertIn("bad", self.next_round("failed")["messages"])
        self.write("src/new.h", "#define MORE 1\n")
        self.next_round("good")
        self.write("src/sub/notes.txt", "no header")
        self.write("src/sub/depth.h", "#define DEPTH 64\n")
        self.assertEqual(self.next_round("good")["rows"][0]["shared_bytes"], 256)
        self.interrupt()


if __name__ == "__main__":
    unittest.main()
