"""Sizes and times of HTTP, at and over their limits (P9)."""

import threading
import time

import pytest
from harness import answers_in, mint_name, read_to_end, request_bytes

KB = 1024


def head_of(size, path=b"/healthz"):
    """A request whose head has exactly so many bytes, the empty line included."""
    start = b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n"
    rest = size - len(start) - 2
    lines = b""
    while rest > 0:
        length = min(rest, 1000)
        if 0 < rest - length < 8:
            length -= 8
        lines += b"X-Pad: " + b"p" * (length - 9) + b"\r\n"
        rest -= length
    head = start + lines + b"\r\n"
    assert len(head) == size
    return head


def one(server, data, seconds=10):
    with server.connect() as client:
        client.send(data)
        client.sock.settimeout(seconds)
        return client.receive()


@pytest.mark.parametrize("size", [4 * KB, 8 * KB - 1, 8 * KB])
def test_a_head_of_8_kb_is_served(server, size):
    assert one(server, head_of(size)).status == 200


@pytest.mark.parametrize("size", [8 * KB + 1, 9 * KB, 64 * KB, 256 * KB])
def test_a_larger_head_is_431_and_closed(server, size):
    with server.raw() as sock:
        try:
            sock.sendall(head_of(size))
        except (BrokenPipeError, ConnectionResetError):
            pass
        received, ended = read_to_end(sock)
    answers = answers_in(received)
    assert ended in ("closed", "reset")
    assert [answer.status for answer in answers] in ([431], []), answers
    assert answers or ended == "reset"


def test_a_head_that_never_ends_is_cut_at_the_limit(server):
    """P9: refused when 8 KB have come, not when the sender feels like stopping."""
    with server.raw() as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X-A: bbbbbbbbbbbbbbbbbb\r\n" * 400)
        received, ended = read_to_end(sock, 3)
    assert [answer.status for answer in answers_in(received)] == [431] and ended is not None


@pytest.mark.parametrize("target", [b"/healthz?" + b"q" * 9000, b"/" + b"p" * 9000])
def test_an_endless_address_is_refused(server, target):
    with server.raw() as sock:
        sock.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        received, ended = read_to_end(sock, 5)
    assert [answer.status for answer in answers_in(received)] in ([414], [431]) and ended is not None


@pytest.mark.parametrize("count,status", [(1, 200), (63, 200), (64, 200), (65, 431), (300, 431)])
def test_at_most_64_headers(server, count, status):
    lines = b"Host: x\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(count - 1))
    answer = one(server, b"GET /healthz HTTP/1.1\r\n" + lines + b"\r\n")
    assert answer.status == status, answer


def padded_sale(size):
    """A good sale whose JSON has exactly so many bytes."""
    body = b'{"name":"%s","stock":1' % mint_name("sale").encode()
    return body + b" " * (size - len(body) - 1) + b"}"


@pytest.mark.parametrize("size,status", [(64 * KB - 1, 201), (64 * KB, 201), (64 * KB + 1, 413), (10 ** 6, 413)])
def test_a_body_has_at_most_64_kb(shop, size, status):
    with shop.server.raw() as sock:
        try:
            sock.sendall(request_bytes("POST", "/v1/sales", padded_sale(size), shop.seller_token))
        except (BrokenPipeError, ConnectionResetError):
            pass
        if status == 413:
            received, ended = read_to_end(sock, 5)
            answers = answers_in(received)
            assert ended is not None, "a refused body leaves the connection out of step: it must close"
            assert [answer.status for answer in answers] == [413] or (ended == "reset" and not answers), answers
        else:
            client = shop.server.connect()
            client.sock = sock
            assert client.receive().status == status
    assert len(shop.listed(f"/v1/sales?seller={shop.seller}")) == (status == 201)


def test_a_length_beyond_the_limit_is_refused_before_the_body_comes(server):
    """P9: nobody has to send 10 MB to hear that it is too much."""
    for length in (64 * KB + 1, 10 ** 7, 2 ** 31, 2 ** 32, 2 ** 63):
        with server.raw() as sock:
            sock.sendall(b"POST /v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % length)
            received, ended = read_to_end(sock, 5)
        assert [answer.status for answer in answers_in(received)] in ([413], [400]) and ended is not None, length


def test_100_continue_is_not_sent_for_a_body_too_large(server):
    with server.raw() as sock:
        sock.sendall(b"POST /v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 70000\r\nExpect: 100-continue\r\n\r\n")
        received, ended = read_to_end(sock, 5)
    assert [answer.status for answer in answers_in(received)] == [413] and ended is not None


@pytest.mark.parametrize("size,status", [(64 * KB, 201), (64 * KB + 1, 413)])
@pytest.mark.parametrize("chunk", [1, 64, 70000])
def test_a_chunked_body_has_at_most_64_kb_too(shop, size, status, chunk):
    """Also when the chunks are one byte each, so that their sizes weigh more than what they carry."""
    body = padded_sale(size)
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(body[at:at + chunk]), body[at:at + chunk]) for at in range(0, len(body), chunk)) + b"0\r\n\r\n"
    head = b"POST /v1/sales HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer %s\r\n\r\n" % shop.seller_token.encode()
    with shop.server.raw() as sock:
        try:
            sock.sendall(head + pieces)
        except (BrokenPipeError, ConnectionResetError):
            pass
        client = shop.server.connect()
        client.sock = sock
        try:
            answer = client.receive()
        except ConnectionResetError:
            assert status == 413
            return
    if chunk == 1:
        assert answer.status in (status, 413), answer
    else:
        assert answer.status == status, answer


# Times. They run side by side, because each of them is mostly waiting.

def slow_head(server):
    """One byte a half second: each is progress, the head as a whole is late."""
    sock = server.raw(60)
    return sock, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"s" * 200, 0.5, (3.5, 20), {408, None}


def half_head(server):
    sock = server.raw(60)
    sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
    return sock, b"", 1, (3.5, 20), {408, None}


def slow_body(server):
    sock = server.raw(60)
    sock.sendall(b"POST /v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n")
    return sock, b"{" + b" " * 100, 0.5, (8, 25), {408, None}


def slow_chunks(server):
    sock = server.raw(60)
    sock.sendall(b"POST /v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    return sock, b"1\r\n \r\n" * 100, 0.25, (8, 25), {408, None}


def half_body(server):
    sock = server.raw(60)
    sock.sendall(b"POST /v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{")
    return sock, b"", 1, (8, 25), {408, None}


def second_head_slow(server):
    """The clock of a head runs for each request, not only for the first."""
    sock = server.raw(60)
    sock.sendall(request_bytes("GET", "/healthz") + b"GET /heal")
    return sock, b"", 1, (3.5, 20), {408, None, 200}


def never_speaks(server):
    return server.raw(60), b"", 1, (3.5, 50), {408, None}


def idle_after_one(server):
    sock = server.raw(60)
    sock.sendall(request_bytes("GET", "/healthz"))
    return sock, b"", 1, (25, 50), {200}


def test_slow_clients_are_shown_out_on_time_and_others_do_not_notice(server, shop):
    """P9: 5 s for a head, 10 s for a body, 30 s between requests; nobody else waits for them."""
    began = {}
    found = {}

    def watch(make):
        sock, drip, pause, bounds, statuses = make(server)
        start = time.monotonic()
        data, at, ended = b"", 0, None
        sock.settimeout(0.01)
        while ended is None and time.monotonic() - start < bounds[1] + 3:
            try:
                piece = sock.recv(65536)
                data += piece
                if not piece:
                    ended = time.monotonic() - start
            except TimeoutError:
                pass
            except ConnectionResetError:
                ended = time.monotonic() - start
            if ended is None:
                try:
                    sock.send(drip[at:at + 1])
                    at += 1
                except (BrokenPipeError, ConnectionResetError):
                    pass
                time.sleep(pause)
        sock.close()
        found[make.__name__] = (ended, bounds, data, statuses)

    makers = [slow_head, half_head, slow_body, slow_chunks, half_body, second_head_slow, never_speaks, idle_after_one]
    threads = [threading.Thread(target=watch, args=(make,), daemon=True) for make in makers for _ in range(3)]
    for thread in threads:
        thread.start()
    began["at"] = time.monotonic()
    waits = []
    while any(thread.is_alive() for thread in threads):
        assert time.monotonic() - began["at"] < 90
        asked = time.monotonic()
        assert shop.client.get("/healthz").status == 200
        waits.append(time.monotonic() - asked)
        time.sleep(0.1)
    for name, (ended, (low, high), data, statuses) in found.items():
        assert ended is not None, f"{name}: still open after {high + 3} s"
        assert low <= ended <= high, f"{name}: closed after {ended:.1f} s, expected {low} to {high}"
        seen = {answer.status for answer in answers_in(data)} or {None}
        assert seen <= statuses, f"{name}: {seen}"
    assert len(found) == len(makers)
    assert max(waits) < 10 and sum(wait > 4 for wait in waits) < 3, f"others waited for up to {max(waits):.1f} s"


def test_a_reader_who_does_not_read_costs_little_memory(server, shop):
    """P9: thousands of answers for someone who takes none are not piled up in memory."""
    before = server.memory_kb()
    socks = [server.raw(5) for _ in range(5)]
    request = request_bytes("GET", "/openapi.yaml")
    for sock in socks:
        sock.setblocking(False)
        sent = 0
        end = time.monotonic() + 1
        while sent < 20000 * len(request) and time.monotonic() < end:
            try:
                sent += sock.send(request * 200)
            except BlockingIOError:
                time.sleep(0.02)
            except (BrokenPipeError, ConnectionResetError):
                break
    grown = server.memory_kb() - before
    assert shop.client.get("/healthz").status == 200
    for sock in socks:
        sock.close()
    assert grown < 64 * KB, f"{grown} KB for five readers who do not read"
