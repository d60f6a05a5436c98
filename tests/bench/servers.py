"""The servers under measurement: started on free ports in a folder of the bench, ended by the bench and nobody else."""

import http.client
import json
import os
import resource
import select
import signal
import socket
import subprocess
import time

START_S_MAX = 300
STOP_S_MAX = 60
CALL_S_MAX = 30
# What can wait lets a rush by, and looks every twentieth of a second whether it is over.
IDLE_S = 0.2
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PROCESS_FILES_MAX = 20000
# The whole crowd comes from one address here: every check of the guard runs, and none refuses.
LIMITS_WIDE = "ip_grab_per_s=10000000,ip_grab_burst=10000000,user_grab_per_s=10000000,user_grab_burst=10000000"


class BenchError(Exception):
    """Something the bench needs did not work; the text is for the person who ran it."""


def raise_open_files_limit():
    """Thousands of connections need as many descriptors, in the bench and in the servers it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = PROCESS_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, PROCESS_FILES_MAX)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def run(command, timeout_s, **kwargs):
    """A helper program to its end; its standard output."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout_s, **kwargs)
    except FileNotFoundError:
        raise BenchError(f"{command[0]} is not installed: run 'make deps G=\"run test bench\"'") from None
    except subprocess.TimeoutExpired:
        raise BenchError(f"{' '.join(command[:3])} … took more than {timeout_s} s") from None
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command[:3])} … ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    return done.stdout.decode()


def process_cpu_s(pids):
    """Processor time, user and system, that these processes have used since they started."""
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_S


def process_rss_mb(pids):
    """Resident memory of these processes, in MB of 10^6 bytes."""
    kib = 0
    for pid in pids:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            kib += sum(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))
    return kib * 1024 / 1e6


class Server:
    """What both have in common: a process, an address, figures from /proc."""

    def __init__(self):
        self.process = None
        self.port = None

    def pids(self):
        return [self.process.pid]

    def cpu_s(self):
        return process_cpu_s(self.pids())

    def wait_idle(self, timeout_s=120):
        """Until it has done what it does behind those who ask, so that nobody who is measured next pays for it."""
        def idle():
            before = self.cpu_s()
            time.sleep(IDLE_S)
            return self.cpu_s() - before <= 1 / TICKS_PER_S
        wait_until(idle, timeout_s, "a server did not come to rest")

    def rss_mb(self):
        return process_rss_mb(self.pids())

    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def call(self, method, path, token=None, body=None):
        """One request on a connection of its own: status and body as text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_S_MAX)
        headers = {"Content-Length": "0"} if body is None else {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def stop(self, how=signal.SIGTERM):
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None


class Nginx(Server):
    """nginx that answers the same constant 201 to everything, from a configuration and a folder of its own."""

    def __init__(self, folder, workers, body):
        super().__init__()
        self.workers = workers
        self.body = body
        self.folder = folder

    def start(self):
        os.makedirs(self.folder)
        self.port = port_free()
        path = os.path.join(self.folder, "nginx.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.conf())
        with open(os.path.join(self.folder, "stderr"), "wb") as log:
            self.process = subprocess.Popen([nginx_path(), "-p", self.folder, "-c", path], stdout=subprocess.DEVNULL,
                                            stderr=log)
        wait_until(self.answers, START_S_MAX, f"nginx did not start, see {self.folder}/stderr")
        # Right after the start the master may not have made all its workers yet.
        wait_until(lambda: len(self.pids()) == self.workers, START_S_MAX, "nginx has not the workers it was told to have")

    def conf(self):
        # reuseport, as our reactors have it: each worker has a queue of its own. Keep-alive never ends during a run.
        temporary = "\n".join(f"    {name}_temp_path {self.folder}/{name};"
                              for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return f"""daemon off;
worker_processes {self.workers};
worker_rlimit_nofile {resource.getrlimit(resource.RLIMIT_NOFILE)[1]};
pid {self.folder}/pid;
error_log stderr crit;
events {{ worker_connections 16384; }}
http {{
{temporary}
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 3600s;
    default_type application/json;
    server {{
        listen 127.0.0.1:{self.port} reuseport backlog=4096;
        location / {{ return 201 '{self.body}'; }}
    }}
}}
"""

    def answers(self):
        if self.process.poll() is not None:
            with open(os.path.join(self.folder, "stderr"), encoding="utf-8", errors="replace") as log:
                raise BenchError(f"nginx ended with {self.process.returncode}: {log.read()[-2000:]}")
        try:
            return self.call("POST", "/")[0] == 201
        except OSError:
            return False

    def pids(self):
        """The workers: the master only waits."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]


class Stampede(Server):
    """Our server on a data folder."""

    def __init__(self, binary, data, reactors, options=(), limits=LIMITS_WIDE):
        super().__init__()
        self.binary = binary
        self.data = data
        self.reactors = reactors
        self.options = list(options)
        self.limits = limits
        self.ready_s = None

    def start(self):
        os.makedirs(self.data, exist_ok=True)
        command = [self.binary, "serve", "--data", self.data, "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0",
                   "--reactors", str(self.reactors), "--limits", self.limits, "--log-level", "warn", *self.options]
        log_path = self.data.rstrip("/") + ".log"
        start_s = time.monotonic()
        with open(log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        line = self.ready_line(start_s + START_S_MAX)
        self.ready_s = time.monotonic() - start_s
        if not line.startswith("listening http="):
            self.stop(signal.SIGKILL)
            with open(log_path, encoding="utf-8", errors="replace") as log:
                raise BenchError(f"the server did not start (it said {line!r}): {log.read()[-2000:]}")
        self.port, self.resp_port = (int(word.rpartition(":")[2]) for word in line.split()[1:3])

    def ready_line(self, until_s):
        text = b""
        while not text.endswith(b"\n"):
            ready = select.select([self.process.stdout], [], [], max(0.0, until_s - time.monotonic()))[0]
            piece = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            if not piece:
                break
            text += piece
        return text.decode(errors="replace").strip()

    def keys(self):
        return os.path.join(self.data, "keys")

    def metrics(self):
        """Every sample of /metrics: name with labels → value."""
        status, text = self.call("GET", "/metrics")
        if status != 200:
            raise BenchError(f"/metrics answered {status}")
        samples = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                samples[name] = float(value)
        return samples

    def wait_filed(self, timeout_s=120):
        """Until the clerk has nothing left to file, so that its work is not charged to whoever is measured next."""
        def filed():
            samples = self.metrics()
            return samples["stampede_clerk_lag"] == 0 and samples["stampede_journal_lag"] == 0
        wait_until(filed, timeout_s, "the clerk did not finish filing")

    def sale_create(self, token, name, stock, **more):
        status, text = self.call("POST", "/v1/sales", token, {"name": name, "stock": stock, **more})
        if status != 201:
            raise BenchError(f"creating a sale answered {status}: {text}")
        return json.loads(text)["id"]


def port_free():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def nginx_path():
    for path in ("/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"):
        if os.path.exists(path):
            return path
    raise BenchError("nginx is not installed: run 'make deps G=\"run test bench\"'")


def wait_until(condition, timeout_s, complaint):
    until_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until_s:
            raise BenchError(complaint)
        time.sleep(0.05)
