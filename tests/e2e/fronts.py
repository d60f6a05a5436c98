"""deploy/nginx.conf with a real nginx in front of real servers, and clients of it."""

import pathlib
import re
import shutil
import socket
import ssl
import subprocess

from harness import Client, end_with_parent, eventually
from ports import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
# As in the file.
RATE_PER_S = 50


class Front:
    """nginx with the file as it is delivered, but for the ports, the files and the name of the shop."""

    def __init__(self, server, folder, rate=None, others=()):
        self.server, self.folder, self.rate = server, folder, rate
        self.servers = [server, *others]
        self.host, self.port, self.plain_port = "127.0.0.1", free_port(), free_port()
        self.context = None
        self.process = None

    def conf(self):
        text = (ROOT / "deploy" / "nginx.conf").read_text()
        temporary = "".join(f"    {name}_temp_path {self.folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        changes = {
            "user www-data;\n": "daemon off;\n",
            "worker_processes auto;": "worker_processes 2;",
            "worker_rlimit_nofile 65536;\n": "",
            "worker_connections 16384;": "worker_connections 512;",
            "pid /run/nginx.pid;": f"pid {self.folder}/pid;",
            "/var/log/nginx/error.log": f"{self.folder}/error.log",
            "/var/log/nginx/access.log combined buffer=64k flush=1s": f"{self.folder}/access.log",
            "\nhttp {\n": f"\nhttp {{\n{temporary}",
            "        server 127.0.0.1:20080 fail_timeout=3s;\n": "".join(f"        server {one.host}:{one.port} fail_timeout=3s;\n" for one in self.servers),
            "listen [::]:80;": f"listen [::1]:{self.plain_port};",
            "listen [::]:443 ssl http2;": f"listen [::1]:{self.port} ssl http2;",
            "listen 80;": f"listen 127.0.0.1:{self.plain_port};",
            "listen 443 ssl http2;": f"listen 127.0.0.1:{self.port} ssl http2;",
            "/etc/ssl/SHOP.EXAMPLE.crt": str(self.folder / "cert.pem"),
            "/etc/ssl/private/SHOP.EXAMPLE.key": str(self.folder / "key.pem"),
            "server_name SHOP.EXAMPLE;": "server_name localhost;",
        }
        if self.rate is not None:
            changes[f"rate={RATE_PER_S}r/s"] = f"rate={self.rate}r/s"
        for old, new in changes.items():
            assert old in text, f"deploy/nginx.conf has no {old!r}"
            text = text.replace(old, new)
        assert not re.search(r"^[^#]*SHOP\.EXAMPLE", text, re.M)
        return text

    def start(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.folder / "key.pem", "-out",
                        self.folder / "cert.pem", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True,
                       capture_output=True, timeout=60)
        self.context = ssl.create_default_context(cafile=str(self.folder / "cert.pem"))
        path = self.folder / "nginx.conf"
        path.write_text(self.conf())
        nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")
        with open(self.folder / "stderr", "wb") as log:
            self.process = subprocess.Popen([nginx, "-p", self.folder, "-c", path], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=end_with_parent)
        eventually(self.answers, 30)
        return self

    def answers(self):
        assert self.process.poll() is None, (self.folder / "stderr").read_text()
        try:
            socket.create_connection((self.host, self.port), 5).close()
        except OSError:
            return False
        return True

    def raw(self, timeout=10, source="127.0.0.1"):
        plain = socket.create_connection((self.host, self.port), timeout, source_address=(source, 0))
        return self.context.wrap_socket(plain, server_hostname="localhost")

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)


class From(Client):
    """A client at another address of this machine: all of 127/8 is loopback."""

    def __init__(self, front, source):
        super().__init__(front)
        self.server = self
        self.front, self.source = front, source

    def raw(self, timeout=10):
        return self.front.raw(timeout, self.source)
