"""What the crowd does not show: the engine alone, restart, the clerk, and memory."""

import os
import shutil
import signal
import socket
import statistics
import time

import crowd
import servers
import table

FILL_S_MAX = 900
IDLE_CONNECTIONS = 10_000
IDLE_WATCH_S = 2
RESTARTS = 3
EXPORTS = 3
EXPIRIES_MIN = 200_000
EXPORT_MIN = 300_000
GROWTH_MAX = 1.3
HOLD_SLOWER_MAX = 1.1
BYTES_PER_BUYER_MAX = 96


def shown(count):
    return f"{count:,}"


def engine(bench):
    """ns a grab with 10^3, 10^5 and 10^7 buyers in memory, with and without a hold; bytes a buyer; ns an expiry."""
    levels = (1_000, 100_000, 1_000_000 if bench.quick else 10_000_000)
    bench.say(f"engine: up to {shown(levels[-1])} buyers")
    text = servers.run([bench.program("engine_bench"), str(5 if bench.quick else 31), *map(str, levels)], FILL_S_MAX)
    rows = [[float(cell) for cell in row.split("\t")] for row in text.splitlines()]
    holds, expiry_ns = rows.pop()
    figures = []
    for level, grab_ns, fill_ns, refuse_ns, _, _, hold_ns in rows:
        at = f"at {shown(int(level))} buyers"
        figures.append(table.Figure(f"engine grab {at}", grab_ns, "ns"))
        figures.append(table.Figure(f"engine grab while filling {at}", fill_ns, "ns"))
        figures.append(table.Figure(f"engine refusal without the lock {at}", refuse_ns, "ns"))
        figures.append(table.Figure(f"engine grab with a hold {at}", hold_ns, "ns"))
    growth = rows[-1][1] / rows[0][1]
    figures.append(table.Figure(f"engine grab at {shown(levels[-1])} against at {shown(levels[0])}", growth, "x",
                                f"<= {GROWTH_MAX}", growth <= GROWTH_MAX))
    slower = rows[-1][6] / rows[-1][1]
    figures.append(table.Figure(f"engine grab with a hold against without at {shown(levels[-1])}", slower, "x",
                                f"<= {HOLD_SLOWER_MAX}", slower <= HOLD_SLOWER_MAX))
    figures.append(table.Figure(f"engine expiry, {shown(int(holds))} holds", expiry_ns, "ns"))
    for how, value in (("as it counts", rows[-1][4]), ("as the process grew", rows[-1][5])):
        figures.append(table.Figure(f"engine memory a buyer, {how}", value, "bytes", f"<= {BYTES_PER_BUYER_MAX}",
                                    value <= BYTES_PER_BUYER_MAX))
    return figures


def filled(bench, name, orders):
    """A data folder with so many orders in its journal and an empty ledger; seconds it took."""
    data = bench.folder(name)
    os.makedirs(data)
    bench.say(f"filling {name}: {shown(orders)} orders")
    text = servers.run([bench.program("fill"), "orders", data, str(orders)], FILL_S_MAX)
    return data, float(text.split()[1])


def journal_bytes(data):
    """What is written in the segments; they are as long as they will ever be from the start, and zero beyond that."""
    total = 0
    for name in os.listdir(os.path.join(data, "journal")):
        with open(os.path.join(data, "journal", name), "rb") as file:
            total += len(file.read().rstrip(b"\0"))
    return total


def forget_pages(folder):
    """Puts the files of a folder on disk and out of the page cache: a restart after a crash of the machine reads them."""
    for parent, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(parent, name), os.O_RDONLY)
            try:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


def restart_s(bench, data):
    """Median seconds from exec to the ready line, each time on a fresh copy."""
    took = []
    for _ in range(1 if bench.quick else RESTARTS):
        copy = bench.folder("restart")
        shutil.copytree(data, copy)
        forget_pages(copy)
        server = servers.Stampede(bench.binary, copy, 1)
        try:
            server.start()
            took.append(server.ready_s)
        finally:
            server.stop(signal.SIGKILL)
        shutil.rmtree(copy)
    return statistics.median(took)


def restart(bench):
    """Restart per million orders of open sales, and the rate of the clerk on the way."""
    orders = 200_000 if bench.quick else 1_000_000
    data, fill_s = filled(bench, "unfiled", orders)
    figures = [table.Figure("gate and journal without a wire", orders / fill_s, "wins/s"),
               table.Figure("journal a win", journal_bytes(data) / orders, "bytes")]
    bench.say("restart from the journal")
    figures.append(restart_figure(bench, "the journal alone", restart_s(bench, data) * 1e6 / orders))
    bench.say("clerk")
    decisions, file_s = map(float, servers.run([bench.program("fill"), "file", data], FILL_S_MAX).split())
    figures.append(table.Figure("clerk drain", decisions / file_s, "orders/s"))
    bench.say("restart from the ledger")
    figures.append(restart_figure(bench, "the ledger", restart_s(bench, data) * 1e6 / orders))
    shutil.rmtree(data)
    return figures


def ledger(bench):
    """The rate at which the ledger files wins and expiries, and at which orders are exported from it."""
    orders = 200_000 if bench.quick else 1_000_000
    data = bench.folder("exported")
    os.makedirs(data)
    bench.say(f"ledger: {shown(orders)} holds that expire")
    wins, expiries = map(float, servers.run([bench.program("ledger_bench"), data, str(orders)], FILL_S_MAX).split())
    figures = [table.Figure("ledger, wins filed", wins, "orders/s"),
               table.Figure("ledger, expiries filed", expiries, "orders/s", f">= {EXPIRIES_MIN}", expiries >= EXPIRIES_MIN)]
    for form in ("csv", "jsonl"):
        bench.say(f"export as {form}")
        output, took = os.path.join(data, "orders." + form), []
        for _ in range(1 if bench.quick else EXPORTS):
            start_s = time.monotonic()
            servers.run([bench.binary, "export", "orders", "--format", form, "--data", data, "--output", output], FILL_S_MAX)
            took.append(time.monotonic() - start_s)
        rate = orders / statistics.median(took)
        figures.append(table.Figure(f"export orders/s, {form}", rate, "orders/s", f">= {EXPORT_MIN}", rate >= EXPORT_MIN))
    shutil.rmtree(data)
    return figures


def restart_figure(bench, source, seconds):
    """A quick run scales up from few orders and with them what a start costs anyhow, so it is not held to the aim."""
    aim = "" if bench.quick else "<= 2"
    return table.Figure(f"restart from {source}, a million orders", seconds, "s", aim, bench.quick or seconds <= 2)


def idle(bench):
    """Memory and processor time of connections that have had one answer and say nothing more."""
    wanted = min(IDLE_CONNECTIONS, bench.files_max - 200)
    bench.say(f"{shown(wanted)} idle connections")
    server = servers.Stampede(bench.binary, bench.folder("idle"), 1,
                              ["--connections-max", str(wanted + 100)], "connections_per_ip=0")
    held = []
    try:
        server.start()
        server.call("GET", "/healthz")
        before_mb = server.rss_mb()
        for _ in range(wanted):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            held.append(connection)
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if not connection.recv(4096).startswith(b"HTTP/1.1 200"):
                raise servers.BenchError("an idle connection got no 200")
        grown_mb = server.rss_mb() - before_mb
        cpu_s = server.cpu_s()
        time.sleep(IDLE_WATCH_S)
        cpu_ms = (server.cpu_s() - cpu_s) * 1000 / IDLE_WATCH_S
    finally:
        for connection in held:
            connection.close()
        server.stop()
    name = f"{shown(wanted)} idle connections"
    return [table.Figure("server at rest, memory", before_mb, "MB"),
            table.Figure(f"{name}, memory", grown_mb, "MB", "<= 20", grown_mb <= 20),
            table.Figure(f"{name}, processor", cpu_ms, "ms/s")]


def buyers(bench):
    """A server with ten million buyers: memory, and what a whole grab costs it against one that is empty."""
    orders = 1_000_000 if bench.quick else 10_000_000
    data, _ = filled(bench, "buyers", orders)
    full = servers.Stampede(bench.binary, data, 1)
    empty = servers.Stampede(bench.binary, bench.folder("nobody"), 1)
    try:
        full.start()
        rss_mb = full.rss_mb()
        figures = [table.Figure(f"{shown(orders)} buyers, memory", rss_mb, "MB", "" if bench.quick else "<= 1000",
                                bench.quick or rss_mb <= 1000)]
        bench.say("waiting for the clerk")
        full.wait_filed(FILL_S_MAX)
        # One key for both, so that one file of tokens serves both.
        os.makedirs(empty.data)
        shutil.copy(full.keys(), empty.keys())
        empty.start()
        figures.append(whole_grab(bench, full, empty, orders))
    finally:
        full.stop()
        empty.stop()
    shutil.rmtree(data)
    return figures


def whole_grab(bench, full, empty, orders):
    """The processor time of a won grab on one server against the other; turns alternate."""
    tokens = crowd.Tokens(bench.program("mint"), full.keys(), bench.folder("tokens"))
    tokens.have(crowd.TOKENS_PER_S * bench.seconds)
    seller = tokens.one("seller", "seller")
    ratios = []
    for nth in range(bench.rounds):
        cost = {}
        for server in (full, empty):
            sale = server.sale_create(seller, f"whole {nth}", crowd.STOCK_HUGE)
            got = crowd.drive(server, tokens, tokens.count, sale, 256, 1, bench.seconds)
            cost[server] = got["cpu_us"]
            server.wait_filed()
        bench.say(f"  whole grab: {cost[full]:.2f} us of CPU at {shown(orders)} buyers, {cost[empty]:.2f} us empty")
        ratios.append(cost[full] / cost[empty])
    growth = statistics.median(ratios)
    return table.Figure(f"CPU of a whole won grab at {shown(orders)} buyers against none", growth, "x", f"<= {GROWTH_MAX}",
                        growth <= GROWTH_MAX)


PARTS = {"engine": engine, "restart": restart, "ledger": ledger, "idle": idle, "buyers": buyers}


def measure(bench, parts):
    """The figures of each part that is wanted."""
    figures = {}
    wanted = [name for name in parts if bench.wanted(name)]
    if wanted:
        print(table.line(table.FIGURE_COLUMNS), flush=True)
    for name in wanted:
        figures[name] = list(parts[name](bench))
        for figure in figures[name]:
            print(table.line(table.figure_cells(figure)), flush=True)
    return figures
