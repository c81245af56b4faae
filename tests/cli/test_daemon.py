"""kiln serve and kiln status: hosts that a daemon compiles for, and all that may go wrong between them."""

import fcntl
import json
import os
import random
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import threading
import time
import unittest

from support import KILN, KilnTest, compiler_builds_for_gpus

FIND, BUILD, FIGURES, HELLO, FOUND, ABSENT, FAILED, FIGURED = 201, 202, 203, 301, 302, 303, 304, 305
KEY, TOOLCHAIN = 103, 104
LIMIT = 16 << 20
TARGET = ("--target", "sm_90")


def field(tag, data):
    return struct.pack("<HI", tag, len(data)) + data


def frame(kind, *fields, version=1, length=None):
    body = b"".join(fields)
    return b"KLNF" + struct.pack("<HHI", version, kind, len(body) if length is None else length) + body


def find(key=b"k" * 32, toolchain=b"nvrtc-1\0"):
    return frame(FIND, field(KEY, key), field(TOOLCHAIN, toolchain))


def receive(connection):
    """The type of the next frame; None where the daemon has closed the connection."""
    head = b""
    try:
        while len(head) < 12:
            part = connection.recv(12 - len(head))
            if not part:
                return None
            head += part
        kind, length = struct.unpack("<HI", head[6:])
        while length > 0:
            length -= len(connection.recv(min(length, 65536)))
    except ConnectionError:
        return None
    return kind


class DaemonTest(KilnTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("run"), 0o700)
        self.socket = self.path("run/socket")
        self.env.update(KILN_SOCKET=self.socket, KILN_CACHE_DIR=self.path("cache"))
        self.env.pop("KILN_REMOTE", None)
        self.daemons = []

    def tearDown(self):
        for daemon in self.daemons:
            if daemon.poll() is None:
                daemon.kill()
            daemon.wait()
        super().tearDown()

    def serve(self, *args, wait=True, env=None, **options):
        return self.started([KILN, "serve", *args], {**self.env, **(env or {})}, self.answers if wait else lambda: True, **options)

    def started(self, command, env, listens, **options):
        with open(self.path("log"), "a") as log:
            daemon = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, **options)
        self.daemons.append(daemon)
        self.until(lambda: listens() or daemon.poll() is not None, "the daemon listens")
        if daemon.poll() is not None:
            self.fail(self.log())
        return daemon

    def log(self):
        with open(self.path("log")) as file:
            return file.read()

    def until(self, holds, what, seconds=60):
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.005)

    def answers(self):
        try:
            with self.connect():
                return True
        except OSError:
            return False

    def connect(self, greeted=True):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(30)
        try:
            connection.connect(self.socket)
            if greeted and receive(connection) != HELLO:
                raise OSError("no greeting")
        except OSError:
            connection.close()
            raise
        return connection

    def figures(self):
        return self.kiln_json("status")

    def end(self, daemon, number=signal.SIGTERM):
        daemon.send_signal(number)
        self.assertEqual(daemon.wait(timeout=60), 0, self.log())

    def warm(self, *specs, env=None, status=0):
        return self.kiln_json("warm", *specs, *TARGET, "--stats", env={**self.env, **(env or {})}, status=status)


class Life(DaemonTest):
    """One daemon at a socket, from its start to its end. No compiler is needed."""

    def test_the_socket_is_closed_to_others_and_goes_with_the_daemon(self):
        daemon = self.serve()
        self.assertEqual(stat.S_IMODE(os.stat(self.socket).st_mode) & 0o077, 0)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("run")).st_mode), 0o700)
        self.end(daemon)
        self.assertFalse(os.path.exists(self.socket))
        self.assertIn("no daemon answers at", self.kiln("status", status=1).stderr)

    def test_the_directory_is_made_and_closed(self):
        shutil.rmtree(self.path("run"))
        self.end(self.serve())
        self.assertEqual(stat.S_IMODE(os.stat(self.path("run")).st_mode), 0o700)
        os.chmod(self.path("run"), 0o755)
        self.end(self.serve())
        self.assertEqual(stat.S_IMODE(os.stat(self.path("run")).st_mode), 0o755, "a directory that is there stays as it is")
        os.chmod(self.path("run"), 0o777)
        self.assertIn("of no use", self.kiln("serve", status=1).stderr)
        os.chmod(self.path("run"), 0o700)

    def test_a_hundred_starts_give_one_daemon(self):
        starts = [subprocess.Popen([KILN, "serve", "--background", "--idle", "60"], env=self.env, stdin=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True) for _ in range(100)]
        told = [start.communicate(timeout=120)[1] for start in starts]
        self.assertEqual([(start.returncode, line) for start, line in zip(starts, told) if start.returncode or line], [])
        pid = self.figures()["pid"]
        try:
            running = [one for one in os.listdir("/proc") if one.isdigit() and self.is_daemon(one)]
            self.assertEqual(running, [str(pid)])
        finally:
            os.kill(pid, signal.SIGTERM)
            self.until(lambda: not os.path.exists(self.socket), "the daemon ends")

    def test_a_start_waits_for_a_daemon_that_answers_late(self):
        daemon = self.serve()
        daemon.send_signal(signal.SIGSTOP)
        with subprocess.Popen([KILN, "serve", "--background"], env=self.env, stdin=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as start:
            try:
                time.sleep(1)
                self.assertIsNone(start.poll())
                self.assertIn("is of no use: Connection timed out", self.kiln("status", status=1).stderr)
            finally:
                daemon.send_signal(signal.SIGCONT)
            _, told = start.communicate(timeout=60)
        self.assertEqual((start.returncode, told), (0, ""))
        self.assertEqual(self.figures()["pid"], daemon.pid)

    def test_a_start_that_fails_says_so_at_once(self):
        start = time.monotonic()
        self.assertIn("no directory store", self.kiln("serve", "--background", "--cache-dir", "", status=1).stderr)
        self.assertLess(time.monotonic() - start, 20)

    def test_a_stop_and_a_start_give_a_daemon(self):
        pids = set()
        for _ in range(10):
            self.kiln("serve", "--background", "--idle", "60")
            pids.add(self.figures()["pid"])
            self.kiln("serve", "--stop")
            with open(self.socket + ".lock") as lock:
                fcntl.lockf(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # the stop returns behind the daemon
        self.assertEqual(len(pids), 10)

    def test_a_daemon_that_takes_no_host_is_not_said_to_have_ended(self):
        with socket.socket(socket.AF_UNIX) as full:
            full.bind(self.socket)
            full.listen()

            def close_all():
                for _ in range(2):
                    full.accept()[0].close()

            closer = threading.Thread(target=close_all)
            closer.start()
            self.assertIn("it takes no more hosts", self.kiln("serve", "--stop", status=1).stderr)
            self.assertIn("it takes no more hosts", self.kiln("status", status=1).stderr)
            closer.join()

    def test_the_directory_may_be_a_link(self):
        os.symlink(self.path("run"), self.path("link"))
        self.env["KILN_SOCKET"] = self.path("link/socket")
        self.serve()
        self.assertEqual(self.figures()["socket"], self.path("link/socket"))

    def is_daemon(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line, open(f"/proc/{pid}/environ", "rb") as environment:
                return b"\0serve\0" in line.read() and self.socket.encode() in environment.read()
        except OSError:
            return False

    def test_the_command_ends_it(self):
        daemon = self.serve()
        self.kiln("serve", "--stop")
        self.assertEqual(daemon.wait(timeout=60), 0)
        self.assertIn("no daemon answers", self.kiln("serve", "--stop", status=1).stderr)

    def test_doctor_knows_it(self):
        self.assertNotIn("daemon", [one["what"] for one in self.kiln_json("doctor", status=None)["findings"]])
        self.serve()
        found = [one for one in self.kiln_json("doctor", status=None)["findings"] if one["what"] == "daemon"]
        self.assertEqual([(one["ok"], one["path"]) for one in found], [(True, self.socket)])

    def test_a_second_daemon_says_so_and_leaves_the_first(self):
        self.serve()
        self.assertIn("a daemon serves at", self.kiln("serve", status=1).stderr)
        self.assertTrue(self.answers())

    def test_a_killed_daemon_leaves_nothing_in_the_way(self):
        for _ in range(3):
            daemon = self.serve()
            daemon.kill()
            daemon.wait()
            self.assertTrue(os.path.exists(self.socket))
        self.end(self.serve())

    def test_another_program_keeps_its_socket(self):
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(self.socket)
            other.listen()
            self.assertIn("another program listens", self.kiln("serve", status=1).stderr)
        os.unlink(self.socket)
        with open(self.socket, "w") as file:
            file.write("mine")
        self.assertIn("is no socket", self.kiln("serve", status=1).stderr)
        with open(self.socket) as file:
            self.assertEqual(file.read(), "mine")

    def test_a_socket_that_took_its_place_stays(self):
        daemon = self.serve()
        os.unlink(self.socket)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(self.socket)
            self.end(daemon)
            self.assertTrue(os.path.exists(self.socket))

    def test_bad_words(self):
        self.assert_bad(["serve", "--socket", "/tmp/" + "x" * 120], "107 bytes")
        self.assert_bad(["serve", "--socket", "relative"], "absolute")
        self.assert_bad(["serve", "--idle", "0"], "--idle")
        self.assert_bad(["serve", "more"], "more")
        self.assertIn("no directory store", self.kiln("serve", "--cache-dir", "", status=1).stderr)

    def test_it_ends_when_nothing_is_asked(self):
        start = time.monotonic()
        daemon = self.serve("--idle", "3")
        with self.connect() as silent, self.connect() as host:
            for _ in range(5):
                time.sleep(1)
                host.sendall(find())
                self.assertEqual(receive(host), ABSENT)
            self.assertEqual(daemon.wait(timeout=60), 0)
            self.assertIsNone(receive(silent))
        self.assertGreater(time.monotonic() - start, 8)

    def test_figures_do_not_keep_it(self):
        daemon, start = self.serve("--idle", "2"), time.monotonic()
        while daemon.poll() is None and time.monotonic() < start + 60:
            self.kiln("status", status=None)
            time.sleep(0.1)
        self.assertEqual(daemon.returncode, 0)

    def test_it_takes_the_socket_of_systemd(self):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.socket)
            listener.listen(10)
            script = f'exec 3<&{listener.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" serve'
            daemon = self.started(["bash", "-c", script, KILN], self.env, self.answers, pass_fds=[listener.fileno()])
            self.end(daemon)
            self.assertTrue(os.path.exists(self.socket), "systemd's socket stays")

    def test_it_reads_files_anew_when_it_is_told_to(self):
        daemon = self.serve()
        with self.connect() as host:
            daemon.send_signal(signal.SIGHUP)
            self.until(lambda: self.figures()["reloads"] == 1, "a reload")
            host.sendall(find())
            self.assertEqual(receive(host), ABSENT)
        self.end(daemon, signal.SIGINT)


class Frames(DaemonTest):
    """Bytes that are no request. No compiler is needed."""

    def setUp(self):
        super().setUp()
        self.daemon = self.serve()

    def tearDown(self):
        if self.daemon.poll() is None:
            with self.connect() as host:
                host.sendall(find())
                self.assertEqual(receive(host), ABSENT, "the daemon goes on")
            self.end(self.daemon)
        super().tearDown()

    def closed(self, data, ends=False):
        """Whether the connection is closed for these bytes, or because the host's end without an answer."""
        with self.connect() as host:
            try:
                host.sendall(data)
                if ends:
                    host.shutdown(socket.SHUT_WR)
            except ConnectionError:
                pass
            return receive(host) is None

    def assert_refused(self, *many):
        before = self.figures()["refused"]["frames"]
        for data in many:
            self.assertTrue(self.closed(data), data)
        self.assertEqual(self.figures()["refused"]["frames"], before + len(many))

    def test_lengths(self):
        before = self.figures()
        self.assert_refused(*(frame(FIND, length=length) for length in (0, LIMIT + 1, 0xffffffff)))
        for length in 1, LIMIT:
            self.assertTrue(self.closed(frame(FIND, length=length), ends=True), length)
        self.assert_refused(frame(FIND, field(1, b"x"), length=LIMIT + 1))
        after = self.figures()
        self.assertEqual(after["refused"]["frames"], before["refused"]["frames"] + 4)
        self.assertLess(after["resident_bytes"], before["resident_bytes"] + (8 << 20), "no memory for what is only said")

    def test_what_is_no_request(self):
        whole = find()
        self.assert_refused(b"x" * 12, frame(FIND), frame(9), frame(HELLO), frame(BUILD), find(key=b"k" * 31), find(toolchain=b"../x\0"),
                            find(toolchain=b"x"), frame(FIND, field(TOOLCHAIN, b"x\0"), field(KEY, b"k" * 32)),
                            b"KLNF" + whole[4:6][::-1] + whole[6:], frame(FIND, field(KEY, b"k" * 32), field(KEY, b"k" * 32)),
                            frame(FIND, b"\1\0\xff\xff\xff\xff"), frame(BUILD, field(3, b"text\0"), field(4, b"spec\0"), field(5, b"sm_1\0")))

    def test_a_cut_at_every_byte(self):
        whole = find()
        before = self.figures()
        for cut in range(len(whole)):
            self.assertTrue(self.closed(whole[:cut], ends=True), cut)
        after = self.figures()
        self.assertEqual((after["requests"], after["refused"]), (before["requests"] + 1, before["refused"]), "a part is no request")

    def test_a_request_byte_by_byte_and_many_at_once(self):
        with self.connect() as host:
            for byte in find():
                host.sendall(bytes([byte]))
            self.assertEqual(receive(host), ABSENT)
            host.sendall(find() * 50 + find()[:7])
            self.assertEqual([receive(host) for _ in range(50)], [ABSENT] * 50)
            host.sendall(find()[7:])
            self.assertEqual(receive(host), ABSENT)

    def test_random_frames(self):
        made = random.Random(5)
        whole = find()
        count = int(os.environ.get("KILN_RANDOM_FRAMES", 3000))
        for _ in range(count):
            kind = made.randrange(4)
            if kind == 0:
                data = made.randbytes(made.randrange(200))
            elif kind == 1:
                data = frame(made.choice((FIND, BUILD, 7)), made.randbytes(made.randrange(100)))
            elif kind == 2:
                data = bytearray(whole)
                data[made.randrange(len(data))] ^= 1 << made.randrange(8)
            else:
                data = frame(BUILD, *(field(tag, made.randbytes(made.randrange(20)) + b"\0") for tag in range(1, 30)))
            with self.connect() as host:
                try:
                    host.sendall(bytes(data))
                    host.shutdown(socket.SHUT_WR)
                except ConnectionError:
                    pass
                self.assertIn(receive(host), (None, ABSENT, FAILED, FIGURED), data)

    def test_a_host_that_does_not_read(self):
        with self.connect() as deaf:
            deaf.setblocking(False)
            with self.assertRaises(BlockingIOError):
                while True:
                    deaf.send(frame(FIGURES) * 100)
            self.assertLess(self.figures()["resident_bytes"], 64 << 20)
            start = time.monotonic()
            self.end(self.daemon)
            self.assertLess(time.monotonic() - start, 20, "it keeps nobody up")
        self.daemon = self.serve()

    def test_answers_are_not_mixed_up(self):
        """Requests behind one that waits have answers of their own."""
        with self.connect() as first, self.connect() as second:
            for turn in range(200):
                key = find(key=bytes([turn]) * 32)
                first.sendall(key + frame(FIGURES))
                second.sendall(key)
                self.assertEqual((receive(first), receive(first), receive(second)), (ABSENT, FIGURED, ABSENT))

    def test_a_relative_store(self):
        self.end(self.daemon)
        self.daemon = self.serve(env={"KILN_CACHE_DIR": "cache"}, cwd=self.path(""))
        self.assertEqual(self.figures()["directory"], os.path.realpath(self.path("cache")))

    def test_a_slow_host_is_closed(self):
        with self.connect() as slow:
            slow.sendall(find()[:5])
            self.assertIsNone(receive(slow))
        self.assertEqual(self.figures()["refused"]["slow"], 1)

    def test_descriptors_run_out(self):
        self.end(self.daemon)
        self.daemon = self.serve(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        hosts = []
        try:
            for _ in range(100):
                hosts.append(self.connect(greeted=False))
            answered = sum(receive(host) == HELLO for host in hosts)
            self.assertTrue(20 < answered < 64, answered)
        finally:
            for host in hosts:
                host.close()
        self.until(self.answers, "it answers again")


@unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
class Users(DaemonTest):
    NOBODY = 65534

    def test_a_host_of_another_user_is_closed(self):
        for name in "run", "cache":
            os.makedirs(self.path(name), exist_ok=True)
            os.chown(self.path(name), self.NOBODY, self.NOBODY)
        folder = self.path("")
        while folder != "/tmp" and len(folder) > 4:
            os.chmod(folder, os.stat(folder).st_mode | 0o055)
            folder = os.path.dirname(folder.rstrip("/"))
        os.chmod(self.path("run"), 0o700)
        become = "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])"
        if subprocess.run(["python3", "-c", become, KILN, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            self.skipTest("another user cannot run the command from its directory")
        self.started(["python3", "-c", become, KILN, "serve"], self.env, lambda: os.path.exists(self.socket))
        self.until(self.is_closed, "a connection of root is closed")
        told = subprocess.run(["python3", "-c", become, KILN, "status", "--json"], env=self.env, stdout=subprocess.PIPE).stdout
        self.assertGreaterEqual(json.loads(told)["refused"]["users"], 1)
        # And the host does not trust what others own.
        self.assertIn("of no use", self.kiln("status", status=1).stderr)

    def is_closed(self):
        try:
            with self.connect(greeted=False) as host:
                return receive(host) is None
        except OSError:
            return False

    def test_a_planted_socket_is_not_asked(self):
        os.chown(self.path("run"), self.NOBODY, self.NOBODY)
        with socket.socket(socket.AF_UNIX) as planted:
            planted.bind(self.socket)
            planted.listen()
            told = self.kiln("status", status=1).stderr
            self.assertIn("its directory is another user's", told)
            planted.settimeout(0.2)
            with self.assertRaises(TimeoutError):
                planted.accept()


class Compiling(DaemonTest):
    """Hosts whose kernels the daemon compiles."""

    def setUp(self):
        super().setUp()
        compiler_builds_for_gpus(self)

    def test_the_daemon_compiles_once_for_all(self):
        daemon = self.serve()
        specs = ["op=relu6,gelu dtype=f32,f16"]
        hosts = [subprocess.Popen([KILN, "warm", *specs, *TARGET, "--json", "--stats"], env=self.env, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) for _ in range(8)]
        for host in hosts:
            out, told = host.communicate(timeout=300)
            self.assertEqual((host.returncode, told), (0, b""))
            done = json.loads(out)
            self.assertEqual((done["specs"], done["compiled"], done["stats"]["compiles"]), (4, 0, 0))
        figures = self.figures()
        self.assertEqual(figures["found"]["compiled"]["count"], 4)
        self.assertEqual({one["spec"].split()[0] for one in figures["most_requested"]}, {"op=relu6", "op=gelu"})
        self.assertTrue(all(one["compile_ms"] > 1 for one in figures["slowest"]))
        self.assertIn("kiln_found_seconds_count{place=\"compiled\"} 4", self.kiln("status", "--prometheus").stdout)
        self.assertIn("slowest to compile", self.kiln("status").stdout)
        self.end(daemon)

    def test_the_entries_are_those_of_a_host_alone(self):
        specs = ["op=softmax,layer_norm(x,w,b) dtype=bf16 n=1000x4096", "op=x*tanh(x) dtype=f32"]
        self.serve()
        self.assertEqual(self.warm(*specs)["compiled"], 0)
        self.assertEqual(self.warm(*specs, env={"KILN_SOCKET": "/nowhere/socket", "KILN_CACHE_DIR": self.path("other")})["compiled"], 3)
        found = [sorted((name, os.path.getsize(os.path.join(folder, name))) for folder, _, names in os.walk(self.path(top))
                        for name in names if name.endswith(".kiln")) for top in ("cache", "other")]
        self.assertEqual(*found)
        self.assertGreaterEqual(len(found[0]), 3)

    def test_a_source_and_its_errors_are_those_of_a_host_alone(self):
        with open(self.path("own.h"), "w") as file:
            file.write("#define BY 3\n")
        with open(self.path("good.cu"), "w") as file:
            file.write('#include "own.h"\nextern "C" __global__ void scale(float *y) { y[threadIdx.x] *= BY; }\n')
        with open(self.path("bad.cu"), "w") as file:
            file.write('#include "own.h"\nextern "C" __global__ void scale(float *y) { y[threadIdx.x] *= by; }\n')
        self.serve()
        alone = {**self.env, "KILN_SOCKET": "/nowhere/socket", "KILN_CACHE_DIR": self.path("other")}
        told = [self.kiln("build", self.path("bad.cu"), *TARGET, status=1, env=env).stderr for env in (None, alone)]
        self.assertEqual(*told)
        self.assertIn("bad.cu", told[0])
        self.assertEqual(self.figures()["failed"], 1)
        self.kiln("build", self.path("good.cu"), *TARGET)
        self.assertEqual(self.figures()["found"]["compiled"]["count"], 1)
        with open(self.path("own.h"), "w") as file:
            file.write("#define BY 4\n")
        self.kiln("build", self.path("good.cu"), *TARGET)
        self.assertEqual(self.figures()["found"]["compiled"]["count"], 2, "a header has changed")

    def test_what_the_store_has_lost_is_put_there_again(self):
        self.serve()
        self.warm("op=relu6 dtype=f32")
        shutil.rmtree(self.path("cache/v1"))
        done = self.warm("op=relu6 dtype=f32")
        self.assertEqual((done["failed"], done["stats"]["compiles"]), (0, 0))
        figures = self.figures()
        self.assertEqual((figures["found"]["compiled"]["count"], figures["found"]["memory"]["count"]), (1, 1))

    def toy(self, *args, body="out[0] = x[0];"):
        with open(self.path("toy.cu"), "w") as file:
            file.write("//! template toy\n//! size n\n//! dtype f32\n//! grid n\n//! param block 32,64 = 32\n//! entry toy align 4\n" +
                       "".join(f"//! arg {arg}\n" for arg in args) +
                       'extern "C" __global__ void toy(float *out, const float *x, unsigned long long n) { %s }\n' % body)
        return self.path("toy.cu")

    def test_the_arguments_of_a_template_are_compared(self):
        daemon = self.serve()
        out = self.kiln("warm", self.toy("out out f32[n]", "x in f32[n]"), *TARGET, status=1).stderr
        self.assertIn(f"{self.path('toy.cu')}: ", out)
        self.assertIn("takes 3 parameters, and the template declares 2 (out, x)", out)
        self.assertEqual((self.figures()["failed"], list(self.kiln_json("cache", "stat")["kinds"])), (1, ["toolchain"]))
        self.assertIn("takes parameters of 8 8 8 bytes, and the template declares 8 8", self.log())
        done = self.warm(self.toy("out out f32[n]", "x in f32[n]", "n uint64 = n"))
        self.assertEqual((done["failed"], done["stats"]["compiles"], done["stats"]["daemon_found"]), (0, 0, 1))
        self.end(daemon)

    def test_a_template_has_the_messages_of_a_host_alone(self):
        self.serve()
        self.toy("out out f32[n]", "x in f32[n]", "n uint64 = n", body="out[0] = y[0];")
        alone = {**self.env, "KILN_SOCKET": "/nowhere/socket", "KILN_CACHE_DIR": self.path("other")}
        told = [self.kiln("warm", self.path("toy.cu"), *TARGET, status=1, env=env).stderr for env in (None, alone)]
        self.assertEqual(*told)
        self.assertIn(self.path("toy.cu"), told[0])

    def test_a_strict_daemon_leaves_compiles_to_hosts(self):
        self.serve(env={"KILN_STRICT": "on"})
        for spec in "op=relu6 dtype=f32", "op=gelu dtype=f32":
            done = self.warm(spec)
            self.assertEqual((done["failed"], done["compiled"], done["stats"]["daemon_failures"], done["stats"]["daemon_lost"]), (0, 1, 1, 0))

    def test_a_store_that_moved_is_read_anew(self):
        for name in "one", "two":
            os.mkdir(self.path(name), 0o700)
        os.symlink(self.path("one"), self.path("cache"))
        daemon = self.serve()
        self.assertEqual(self.warm("op=relu6 dtype=f32")["stats"]["daemon_found"], 1)
        os.unlink(self.path("cache"))
        os.symlink(self.path("two"), self.path("cache"))
        daemon.send_signal(signal.SIGHUP)
        self.until(lambda: self.figures()["reloads"] == 1, "a reload")
        self.assertEqual(self.warm("op=relu6 dtype=f32")["stats"]["daemon_found"], 1)

    def test_a_daemon_without_a_compiler_fails_nobody(self):
        self.serve(env={"KILN_NVRTC": "/nowhere/libnvrtc.so"})
        done = self.warm("op=relu6 dtype=f32")
        self.assertEqual((done["failed"], done["compiled"], done["stats"]["daemon_failures"]), (0, 1, 1))

    def test_a_host_starts_one_when_it_is_told_to(self):
        try:
            done = self.warm("op=relu6 dtype=f32", env={"KILN_START_DAEMON": "on"})
            self.assertEqual((done["compiled"], done["stats"]["daemon_found"]), (0, 1))
            self.assertEqual(self.figures()["found"]["compiled"]["count"], 1)
        finally:
            os.kill(self.figures()["pid"], signal.SIGTERM)
        self.assert_bad(["warm", "op=relu6", *TARGET], "KILN_START_DAEMON", env={**self.env, "KILN_START_DAEMON": "perhaps"})

    def test_a_daemon_of_another_store_is_not_asked(self):
        self.serve()
        done = self.kiln("warm", "op=relu6 dtype=f32", *TARGET, "--json", "--stats", env={**self.env, "KILN_CACHE_DIR": self.path("other")})
        self.assertIn("has another store", done.stderr)
        stats = json.loads(done.stdout)["stats"]
        self.assertEqual((stats["compiles"], stats["daemon_refused"]), (1, 1))

    def test_what_was_asked_is_answered_before_the_end(self):
        daemon = self.serve()
        host = subprocess.Popen([KILN, "warm", "op=layer_norm(x,w,b),softmax dtype=f32 n=1000x4096", *TARGET, "--json", "--stats"],
                                env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.until(lambda: self.figures()["running"] > 0 or host.poll() is not None, "a compile is under way")
        self.end(daemon)
        out, told = host.communicate(timeout=120)
        self.assertEqual(host.returncode, 0, told)
        self.assertEqual(json.loads(out)["failed"], 0)
        self.assertGreaterEqual(json.loads(out)["stats"]["daemon_found"], 1)

    def test_kills_in_the_middle_of_compiles(self):
        """Every host gets its kernels, whatever dies: a kill costs one more compile of what was under way."""
        kills = int(os.environ.get("KILN_KILLS", 6))
        stop = threading.Event()
        killed = []

        def keep_killing():
            made = random.Random(3)
            while not stop.is_set() and len(killed) < kills:
                daemon = self.serve(wait=False)
                stop.wait(made.uniform(0.1, 0.4))
                daemon.kill()
                daemon.wait()
                killed.append(daemon.pid)

        killer = threading.Thread(target=keep_killing)
        killer.start()
        turn, compiles = 0, 0
        try:
            while killer.is_alive():
                turn += 1
                specs = [f"op=x+{turn} dtype=f32", f"op=x*{turn} dtype=f32"]
                hosts = [subprocess.Popen([KILN, "warm", *specs, *TARGET, "--json", "--stats"], env=self.env, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True) for _ in range(4)]
                for host in hosts:
                    out, told = host.communicate(timeout=300)
                    self.assertEqual(host.returncode, 0, told)
                    done = json.loads(out)
                    self.assertEqual((done["specs"], done["failed"]), (2, 0), told)
                    compiles += done["stats"]["compiles"]
        finally:
            stop.set()
            killer.join()
        self.assertLessEqual(compiles, 2 * turn, "hosts compile a kernel once at most")
        again = self.warm(*[f"op=x{sign}{k} dtype=f32" for k in range(1, turn + 1) for sign in "+*"])
        self.assertEqual((again["compiled"], again["failed"]), (0, 0))

    def test_hosts_that_are_killed_leave_the_daemon_at_work(self):
        daemon = self.serve()
        for turn in range(int(os.environ.get("KILN_KILLS", 10))):
            host = subprocess.Popen([KILN, "warm", f"op=x-{turn} dtype=f32", *TARGET], env=self.env, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
            time.sleep(0.03)
            host.kill()
            host.wait()
        self.until(lambda: self.figures()["running"] == 0 and self.figures()["clients"] == 1, "hosts are gone")
        self.assertEqual(self.warm("op=x-3 dtype=f32")["stats"]["compiles"], 0)
        self.end(daemon)

    def test_a_stopped_daemon_costs_a_moment(self):
        daemon = self.serve()
        daemon.send_signal(signal.SIGSTOP)
        start = time.monotonic()
        done = self.kiln("warm", "op=relu6,gelu,silu dtype=f32", *TARGET, "--json", "--stats")
        spent = time.monotonic() - start
        daemon.send_signal(signal.SIGCONT)
        stats = json.loads(done.stdout)["stats"]
        self.assertEqual((stats["compiles"], stats["daemon_found"]), (3, 0))
        self.assertIn("is not used", done.stderr)
        self.assertLess(spent, 20)
        self.end(daemon)


if __name__ == "__main__":
    unittest.main()
