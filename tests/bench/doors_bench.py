"""The doors over HTTP, against what people run behind such links and carts: nginx with Lua, and Redis that decides by script."""

import json
import os
import signal
import socket
import statistics
import subprocess

import crowd
import servers
import table

CONNECTIONS = 64
WORKERS = 2
TOKENS_PER_S = 60_000
STOCK = {"won": crowd.STOCK_HUGE, "sold-out": 1}
# What their "won" rests on: nothing, or a log that is synced before the answer, as ours is.
PERSISTENCE = {"Redis without persistence": ("no", "no"), "Redis with AOF always": ("yes", "always")}
MODULES = ("ndk_http_module.so", "ngx_http_lua_module.so")

# One number for winners, who are written down, and one for losers, who are counted.
CLAIM_SCRIPT = """
if tonumber(redis.call('GET', KEYS[1])) <= 0 then return -redis.call('INCR', KEYS[2]) end
redis.call('DECR', KEYS[1])
return redis.call('RPUSH', KEYS[3], 'claim')
"""
# The usual script: has the buyer one, is one left, take it, remember the buyer, queue the order.
CART_SCRIPT = """
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return 0 end
if tonumber(redis.call('GET', KEYS[1])) <= 0 then return 2 end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('XADD', KEYS[3], '*', 'buyer', ARGV[1])
return 1
"""


def command(*words):
    """A command as Redis reads it."""
    return b"".join([b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in (str(word).encode() for word in words))])


class Scripted(servers.Server):
    """nginx with Lua in front of a Redis of its own. The workers keep their connections to it."""

    def __init__(self, folder, persistence):
        super().__init__()
        self.folder = folder
        self.append, self.fsync = persistence
        self.redis = None
        self.redis_port = None

    def start(self):
        os.makedirs(self.folder)
        self.redis_port, self.port = servers.port_free(), servers.port_free()
        with open(os.path.join(self.folder, "redis.log"), "wb") as log:
            self.redis = subprocess.Popen(["redis-server", "--port", str(self.redis_port), "--bind", "127.0.0.1", "--dir", self.folder, "--save", "",
                                           "--appendonly", self.append, "--appendfsync", self.fsync if self.append == "yes" else "no"],
                                          stdout=log, stderr=log)
        servers.wait_until(lambda: self.ask("PING") == b"+PONG\r\n", servers.START_S_MAX, "redis-server did not start")
        shas = [self.ask("SCRIPT", "LOAD", script).split(b"\r\n")[1].decode() for script in (CLAIM_SCRIPT, CART_SCRIPT)]
        path = os.path.join(self.folder, "nginx.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.conf(*shas))
        with open(os.path.join(self.folder, "stderr"), "wb") as log:
            self.process = subprocess.Popen([servers.nginx_path(), "-p", self.folder, "-c", path], stdout=log, stderr=log)
        servers.wait_until(self.answers, servers.START_S_MAX, f"nginx with Lua did not start, see {self.folder}/stderr")
        servers.wait_until(lambda: len(self.pids()) == WORKERS + 1, servers.START_S_MAX, "nginx has not the workers it was told to have")

    def ask(self, *words):
        try:
            with socket.create_connection(("127.0.0.1", self.redis_port), 10) as sock:
                sock.sendall(command(*words))
                return sock.recv(65536)
        except OSError:
            return b""

    def sell(self, stock):
        for key, value in (("stock", stock), ("losers", 0)):
            self.ask("SET", key, value)
        self.ask("DEL", "buyers", "orders")

    def conf(self, claim, cart):
        temporary = "\n".join(f"    {name}_temp_path {self.folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        modules = "\n".join(f"load_module /usr/lib/nginx/modules/{name};" for name in MODULES)
        return f"""daemon off;
{modules}
worker_processes {WORKERS};
pid {self.folder}/pid;
error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
{temporary}
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 3600s;
    default_type application/json;
    init_by_lua_block {{
        -- Answers are small integers: the one kind of reply that is read here.
        function decide(request)
            local redis = ngx.socket.tcp()
            assert(redis:connect("127.0.0.1", {self.redis_port}))
            assert(redis:send(request))
            local line = assert(redis:receive())
            redis:setkeepalive(60000, 512)
            return assert(tonumber(line:sub(2)), line)
        end
    }}
    server {{
        listen 127.0.0.1:{self.port} reuseport backlog=4096;
        location = /luck {{
            content_by_lua_block {{
                local n = decide("*6\\r\\n$7\\r\\nEVALSHA\\r\\n$40\\r\\n{claim}\\r\\n$1\\r\\n3\\r\\n$5\\r\\nstock\\r\\n$6\\r\\nlosers\\r\\n$6\\r\\norders\\r\\n")
                local body = '{{"won":' .. tostring(n > 0) .. ',"claim":' .. math.abs(n) .. '}}'
                ngx.header.content_length = #body
                ngx.print(body)
            }}
        }}
        location = /shop/cart/add {{
            content_by_lua_block {{
                ngx.req.read_body()
                local buyer = ngx.var.http_authorization
                local n = decide("*7\\r\\n$7\\r\\nEVALSHA\\r\\n$40\\r\\n{cart}\\r\\n$1\\r\\n3\\r\\n$5\\r\\nstock\\r\\n$6\\r\\nbuyers\\r\\n$6\\r\\norders\\r\\n$" .. #buyer ..
                    "\\r\\n" .. buyer .. "\\r\\n")
                local body = '{{"code":' .. (n == 1 and 0 or 1000 + n) .. ',"data":null,"msg":"' .. (n == 1 and "ok" or "no") .. '"}}'
                ngx.header.content_length = #body
                ngx.print(body)
            }}
        }}
    }}
}}
"""

    def answers(self):
        if self.process.poll() is not None:
            with open(os.path.join(self.folder, "stderr"), encoding="utf-8", errors="replace") as log:
                raise servers.BenchError(f"nginx with Lua ended with {self.process.returncode}: {log.read()[-2000:]}")
        self.sell(1)
        try:
            return self.call("GET", "/luck") == (200, '{"won":true,"claim":1}')
        except OSError:
            return False

    def pids(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()] + [self.redis.pid]

    def stop(self, how=signal.SIGTERM):
        super().stop(how)
        if self.redis is not None:
            self.redis.terminate()
            self.redis.wait(servers.STOP_S_MAX)
            self.redis = None


class Contest:
    """One door, one path: ours and theirs in turn."""

    def __init__(self, bench, ours, tokens):
        self.bench, self.ours, self.theirs, self.tokens = bench, ours, None, tokens
        self.seller = tokens.one("seller", "seller")
        self.sales = 0

    def ours_door(self, door, path):
        self.sales += 1
        more = {"admission": "open"} if door == "claim" else {"event": self.event()}
        sale = self.ours.sale_create(self.seller, f"sale {self.sales}", STOCK[path], **more)
        if door == "claim":
            return ("GET", f"/luck/{sale}", "")
        return ("PUT", "/shop/cart/add", json.dumps({"goods_id": int(sale), "event_id": int(more["event"])}))

    def event(self):
        status, text = self.ours.call("POST", "/v1/events", self.seller, {"name": "event", "opens_at": "2100-01-01T00:00:00Z"})
        if status != 201:
            raise servers.BenchError(f"making an event answered {status}: {text}")
        return json.loads(text)["id"]

    def turn(self, server, door, path):
        if server is self.ours:
            target = self.ours_door(door, path)
        else:
            server.sell(STOCK[path])
            target = ("GET", "/luck", "") if door == "claim" else ("PUT", "/shop/cart/add", json.dumps({"goods_id": 1, "event_id": 1}))
        tokens = self.tokens if door == "cart" else None
        got = crowd.drive(server, tokens, self.tokens.count, 0, CONNECTIONS, 1, self.bench.seconds, target)
        if got["status"] or got["socket"]:
            raise servers.BenchError(f"{door} {path}: {got['status']:.0f} answers were no 200, {got['socket']:.0f} connections failed")
        if server is self.ours:
            server.wait_filed()
        return got["requests"] / got["seconds"]

    def ratio(self, door, path):
        ratios = []
        for nth in range(self.bench.rounds):
            order = [self.ours, self.theirs] if nth % 2 == 0 else [self.theirs, self.ours]
            rates = {server: self.turn(server, door, path) for server in order}
            ratios.append(rates[self.ours] / rates[self.theirs])
            self.bench.say(f"  {door} {path}: {rates[self.ours]:.0f} against {rates[self.theirs]:.0f} requests/s, {ratios[-1]:.2f}x")
        return statistics.median(ratios)


def doors(bench):
    """Requests a second of each door, as a multiple of theirs."""
    figures = []
    ours = servers.Stampede(bench.binary, bench.folder("doors"), WORKERS)
    try:
        ours.start()
        tokens = crowd.Tokens(bench.program("mint"), ours.keys(), bench.folder("doors-tokens"))
        tokens.have(TOKENS_PER_S * bench.seconds)
        contest = Contest(bench, ours, tokens)
        for name, persistence in PERSISTENCE.items():
            bench.say(f"doors: against nginx, Lua and {name}")
            theirs = Scripted(bench.folder("doors-" + name.replace(" ", "-")), persistence)
            try:
                theirs.start()
                contest.theirs = theirs
                for door in ("claim", "cart"):
                    for path in STOCK:
                        figures.append(table.Figure(f"doors, {door} {path} against nginx, Lua and {name}", contest.ratio(door, path), "x"))
            finally:
                theirs.stop()
    finally:
        ours.stop()
    return figures


PARTS = {"doors": doors}
