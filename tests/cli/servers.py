"""Servers for the tests of the remote: Redis and nginx of this machine, and a proxy that does what bad networks do."""

import ctypes
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

HOST = "127.0.0.1"


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def find_program(name):
    """The path of a server's program, or None. Debian has nginx where only root's PATH looks."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def die_with_parent():
    """A test that is killed must leave no server behind."""
    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)


class Program:
    """A server's process, which answers once the constructor returns. Another program may take the port meanwhile."""

    tries = 3

    def __init__(self, directory):
        self.directory = directory
        os.makedirs(directory, exist_ok=True)
        self.process = None
        for _ in range(self.tries):
            self.port = free_port()
            with open(os.path.join(directory, "output"), "wb") as output:
                self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=output,
                                                stderr=subprocess.STDOUT, cwd=directory, preexec_fn=die_with_parent)
            if self.wait_until_ready():
                return
            self.stop()
        with open(os.path.join(directory, "output"), encoding="utf-8", errors="replace") as output:
            raise RuntimeError(f"{self.command()[0]} does not start: {output.read()}")

    def command(self):
        raise NotImplementedError

    def is_ready(self):
        raise NotImplementedError

    def wait_until_ready(self):
        until = time.monotonic() + 10
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if self.is_ready():
                    return self.process.poll() is None
            except OSError:
                pass
            time.sleep(0.01)
        return False

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


# ---- Redis

class RedisError(Exception):
    pass


class RedisClient:
    """Just enough of the protocol: commands of strings and bytes, answers as str, int, bytes, None or a list."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.socket.settimeout(10)
        self.socket.connect(address)
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    def __call__(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        head = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.socket.sendall(b"*%d\r\n%s" % (len(words), head))
        return self.read()

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("closed")
        kind, text = line[:1], line[1:-2]
        if kind == b"-":
            raise RedisError(text.decode())
        if kind == b"$":
            return self.file.read(int(text) + 2)[:-2] if int(text) >= 0 else None
        if kind == b"*":
            return [self.read() for _ in range(int(text))]
        return int(text) if kind == b":" else text.decode()


class Redis(Program):
    """On a port of 127.0.0.1 and on a socket in the directory; `ask` is a client of it."""

    def __init__(self, directory, *options):
        self.options = options
        self.path = os.path.join(directory, "redis.sock")
        super().__init__(directory)
        self.ask = RedisClient(self.path)

    def command(self):
        return [find_program("redis-server"), "--bind", HOST, "--port", str(self.port), "--unixsocket", self.path,
                "--save", "", "--appendonly", "no", *map(str, self.options)]

    def is_ready(self):
        # Both must answer: the port is of another program, if that was quicker
        for address in (self.path, (HOST, self.port)):
            client = RedisClient(address)
            try:
                if client("PING") != "PONG":
                    return False
            except RedisError as error:
                if "NOAUTH" not in str(error):
                    return False
            finally:
                client.close()
        return True

    def url(self, port=None, login="", number=""):
        return f"redis://{login}{HOST}:{port or self.port}{number}"

    # What the tests of all servers use
    def names(self):
        return {name.decode() for name in self.ask("KEYS", "*")}

    def get(self, name):
        return self.ask("GET", name)

    def put(self, name, value):
        self.ask("SET", name, value)

    def clear(self):
        self.ask("FLUSHALL")

    def stop(self):
        if hasattr(self, "ask"):
            self.ask.close()
        super().stop()


# ---- nginx

NGINX = """
daemon off;
master_process off;
error_log {directory}/error.log;
pid {directory}/pid;
events {{ worker_connections 256; }}
http {{
    access_log {directory}/access.log;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/unused;
    fastcgi_temp_path {directory}/unused;
    uwsgi_temp_path {directory}/unused;
    scgi_temp_path {directory}/unused;
    client_max_body_size 100m;
    server {{
        listen {host}:{port};
        root {directory}/files;
        location /kernels/ {{
            dav_methods PUT;
            create_full_put_path on;
        }}
        location /full/ {{
            if ($request_method = PUT) {{ return 507; }}
            alias {directory}/files/kernels/;
        }}
        location /readonly/ {{
            if ($request_method = PUT) {{ return 403; }}
            alias {directory}/files/kernels/;
        }}
        location /closed/ {{ return 401; }}
        location /elsewhere/ {{ return 302 http://{host}:{port}/kernels/; }}
        location /broken/ {{ return 500; }}
    }}
}}
"""


class Nginx(Program):
    def __init__(self, directory):
        self.files = os.path.join(directory, "files", "kernels")
        os.makedirs(self.files, exist_ok=True)
        super().__init__(directory)

    def command(self):
        config = os.path.join(self.directory, "nginx.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write(NGINX.format(directory=self.directory, host=HOST, port=self.port))
        return [find_program("nginx"), "-p", self.directory, "-c", config]

    def is_ready(self):
        with socket.create_connection((HOST, self.port), timeout=5) as client:
            client.sendall(b"GET /kernels/none HTTP/1.0\r\n\r\n")
            return client.recv(100).startswith(b"HTTP/1.1 404")

    def url(self, port=None, path="/kernels"):
        return f"http://{HOST}:{port or self.port}{path}"

    def requests(self):
        """The lines of the log, of what was asked until now."""
        with open(os.path.join(self.directory, "access.log"), encoding="utf-8", errors="replace") as file:
            return [line.split('"')[1] for line in file if '"' in line]

    def names(self):
        return set(os.listdir(self.files))

    def get(self, name):
        with open(os.path.join(self.files, name), "rb") as file:
            return file.read()

    def put(self, name, value):
        with open(os.path.join(self.files, name), "wb") as file:
            file.write(value)

    def clear(self):
        for name in self.names():
            os.remove(os.path.join(self.files, name))


# ---- Bad networks

class Proxy:
    """Passes bytes on between clients and a port; what comes from the server goes through `fault`, in a thread of its own.

    fault(proxy, client, server) sends to the client what it likes and returns when the connection is to be closed.
    before(data), if given, is called before what clients say goes on to the server.
    """

    def __init__(self, port, fault, before=None):
        self.target, self.fault, self.before = port, fault, before
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        self.sockets, self.threads = [], []
        self.connections = 0
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.start(self.listen)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self, function, *args):
        thread = threading.Thread(target=self.quietly, args=(function, *args), daemon=True)
        with self.lock:
            self.threads.append(thread)
        thread.start()

    def quietly(self, function, *args):
        try:
            function(*args)
        except OSError:  # a side has closed
            pass

    def keep(self, connection):
        with self.lock:
            self.sockets.append(connection)
        return connection

    def listen(self):
        while not self.stopped.is_set():
            client, _ = self.listener.accept()
            self.keep(client)
            self.connections += 1
            server = self.keep(socket.create_connection((HOST, self.target)))
            self.start(self.up, client, server)
            self.start(self.down, client, server)

    def up(self, client, server):
        try:
            while data := client.recv(65536):
                if self.before is not None:
                    self.before(data)
                server.sendall(data)
        finally:
            shut(server)

    def down(self, client, server):
        try:
            self.fault(self, client, server)
        finally:
            shut(client)
            shut(server)

    def stop(self):
        self.stopped.set()
        with self.lock:
            sockets, threads = list(self.sockets), list(self.threads)
        shut(self.listener)
        for connection in sockets:
            shut(connection)
        for thread in threads:
            thread.join(10)
        for connection in [self.listener, *sockets]:
            connection.close()


def shut(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def reset(connection):
    """Ends a connection with an error for its other side. A thread that still reads from it would delay that."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.shutdown(socket.SHUT_RD)
    connection.close()


def passes(_, client, server):
    while data := server.recv(65536):
        client.sendall(data)


def hangs(proxy, _client, _server):
    proxy.stopped.wait()


def stalls(seconds):
    """Answers, but only after so long."""
    def fault(proxy, client, server):
        while data := server.recv(65536):
            if proxy.stopped.wait(seconds):
                return
            client.sendall(data)
    return fault


def silent_at_first(seconds):
    """Answers nothing until so long after the first answer is due, and then everything at once."""
    end = None

    def fault(proxy, client, server):
        nonlocal end
        while data := server.recv(65536):
            end = end or time.monotonic() + seconds
            proxy.stopped.wait(max(0, end - time.monotonic()))
            client.sendall(data)
    return fault


def closes_after(count):
    """Each connection ends after so many bytes of its answers."""
    def fault(_, client, server):
        left = count
        while left > 0 and (data := server.recv(65536)):
            client.sendall(data[:left])
            left -= len(data)
    return fault


def resets(_, client, server):
    server.recv(65536)
    reset(client)


def answers(data):
    """Says this, whatever it is asked, and then is silent."""
    def fault(proxy, client, server):
        server.recv(65536)
        client.sendall(data)
        proxy.stopped.wait()
    return fault


def repeats(data, pause=0.0):
    """Says this again and again as fast as it is read, or with pauses."""
    def fault(proxy, client, server):
        server.recv(65536)
        while not proxy.stopped.wait(pause) if pause else not proxy.stopped.is_set():
            client.sendall(data)
    return fault


def drips(pause):
    """What the server says, a byte at a time."""
    def fault(proxy, client, server):
        while data := server.recv(65536):
            for byte in data:
                if proxy.stopped.wait(pause):
                    return
                client.sendall(bytes([byte]))
    return fault
