"""Malformed HTTP: nothing is smuggled, every split gives the same answer (P8, P9)."""

import socket
import struct

import pytest
from harness import answer_take, answers_in, problem, read_to_end, request_bytes

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def talk(server, data, seconds=10, pieces=None):
    """Sends bytes, then reads to the end; (answers, how it ended)."""
    with server.raw() as sock:
        for piece in pieces or [data]:
            try:
                sock.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                break
        received, ended = read_to_end(sock, seconds)
    return answers_in(received), ended


def post(headers, body=b"", path=b"/v1/login"):
    """A POST whose head is exactly what is given."""
    return b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + headers + b"\r\n" + body


SMUGGLED = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
SMUGGLING = {
    "length and chunked": post(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "chunked and length": post(b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n" + SMUGGLED),
    "length 0 and chunked": post(b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "length twice, different": post(b"Content-Length: 0\r\nContent-Length: 5\r\n", b"hello" + SMUGGLED),
    "length twice, equal": post(b"Content-Length: 2\r\nContent-Length: 2\r\n", b"{}" + SMUGGLED),
    "length list": post(b"Content-Length: 2, 2\r\n", b"{}" + SMUGGLED),
    "length empty": post(b"Content-Length:\r\n", SMUGGLED),
    "length blank": post(b"Content-Length:   \r\n", SMUGGLED),
    "length plus": post(b"Content-Length: +2\r\n", b"{}" + SMUGGLED),
    "length minus": post(b"Content-Length: -2\r\n", b"{}" + SMUGGLED),
    "length hex": post(b"Content-Length: 0x2\r\n", b"{}" + SMUGGLED),
    "length letters": post(b"Content-Length: two\r\n", b"{}" + SMUGGLED),
    "length fraction": post(b"Content-Length: 2.0\r\n", b"{}" + SMUGGLED),
    "length with a space": post(b"Content-Length: 2 2\r\n", b"{}" + SMUGGLED),
    "length with a form feed": post(b"Content-Length: \x0c2\r\n", b"{}" + SMUGGLED),
    "length 20 digits": post(b"Content-Length: 99999999999999999999\r\n", b"{}" + SMUGGLED),
    "length 2^64+2": post(b"Content-Length: 18446744073709551618\r\n", b"{}" + SMUGGLED),
    "chunked twice": post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "chunked, then identity": post(b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n" + SMUGGLED),
    "identity": post(b"Transfer-Encoding: identity\r\n", SMUGGLED),
    "gzip, chunked": post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "xchunked": post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "chunked with a tab": post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "chunked quoted": post(b'Transfer-Encoding: "chunked"\r\n', b"0\r\n\r\n" + SMUGGLED),
    "empty coding": post(b"Transfer-Encoding:\r\n", b"0\r\n\r\n" + SMUGGLED),
    "space before the colon": post(b"Content-Length : 2\r\n", b"{}" + SMUGGLED),
    "tab before the colon": post(b"Content-Length\t: 2\r\n", b"{}" + SMUGGLED),
    "coding with a space before the colon": post(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "folded with a space": post(b"X-A: b\r\n Content-Length: 2\r\n", b"{}" + SMUGGLED),
    "folded with a tab": post(b"X-A: b\r\n\tc\r\n", SMUGGLED),
    "first header folded": b"GET /healthz HTTP/1.1\r\n Host: x\r\n\r\n" + SMUGGLED,
    "bare LF after a header": post(b"X-A: b\nContent-Length: 2\r\n", b"{}" + SMUGGLED),
    "bare LF everywhere": b"GET /healthz HTTP/1.1\nHost: x\n\n" + SMUGGLED,
    "bare LF ends the head": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\n" + SMUGGLED,
    "bare CR in a value": post(b"X-A: b\rContent-Length: 2\r\n", b"{}" + SMUGGLED),
    "bare CR ends a header": post(b"X-A: b\rX-B: c\r\n", SMUGGLED),
    "CR CR LF": post(b"X-A: b\r\r\n", SMUGGLED),
    "NUL in a value": post(b"X-A: b\0c\r\n", SMUGGLED),
    "NUL in a name": post(b"X\0A: b\r\n", SMUGGLED),
    "NUL in the path": b"GET /health\0z HTTP/1.1\r\nHost: x\r\n\r\n" + SMUGGLED,
    "no colon": post(b"X-A\r\n", SMUGGLED),
    "empty name": post(b": b\r\n", SMUGGLED),
    "space in a name": post(b"X A: b\r\n", SMUGGLED),
    "control in a value": post(b"X-A: \x01\r\n", SMUGGLED),
    "no version": b"GET /healthz\r\nHost: x\r\n\r\n" + SMUGGLED,
    "version 2": b"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n" + SMUGGLED,
    "version 1.2": b"GET /healthz HTTP/1.9\r\nHost: x\r\n\r\n" + SMUGGLED,
    "version HTTP/1.10": b"GET /healthz HTTP/1.10\r\nHost: x\r\n\r\n" + SMUGGLED,
    "lower case version": b"GET /healthz http/1.1\r\nHost: x\r\n\r\n" + SMUGGLED,
    "two spaces": b"GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + SMUGGLED,
    "space in the path": b"GET /health z HTTP/1.1\r\nHost: x\r\n\r\n" + SMUGGLED,
    "no path": b"GET HTTP/1.1\r\nHost: x\r\n\r\n" + SMUGGLED,
    "space first": b" GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + SMUGGLED,
    "rubbish": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n" + SMUGGLED,
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SMUGGLED,
}


@pytest.mark.parametrize("name", SMUGGLING)
def test_a_request_two_readers_might_read_differently_is_refused(server, name):
    """P8: one 400 (501 for a coding nobody knows, 413 for a length nobody may send, 505 for a version), then the connection closes; what follows is
    not a request."""
    answers, ended = talk(server, SMUGGLING[name])
    assert ended in ("closed", "reset"), f"left open after {answers}"
    allowed = {400}
    if "Transfer" in SMUGGLING[name].decode("latin-1"):
        allowed.add(501)
    if "digits" in name or "2^64" in name:
        allowed.add(413)
    if "ersion" in name or "HTTP/2" in name:
        allowed.add(505)
    assert len(answers) == 1 or (ended == "reset" and not answers), answers
    for answer in answers:
        problem(answer, tuple(allowed))
        assert answer.headers.get("connection", "").lower() == "close", answer


CHUNKS = {
    "not hex": b"g\r\n{}\r\n0\r\n\r\n", "empty size": b"\r\n{}\r\n0\r\n\r\n", "minus": b"-2\r\n{}\r\n0\r\n\r\n", "plus": b"+2\r\n{}\r\n0\r\n\r\n", "0x": b"0x2\r\n{}\r\n0\r\n\r\n",
    "too long a size": b"1" * 17 + b"\r\n{}", "2^64": b"10000000000000000\r\n{}\r\n0\r\n\r\n", "2^64+2": b"10000000000000002\r\n{}\r\n0\r\n\r\n",
    "no end of chunk": b"2\r\n{}0\r\n\r\n", "longer than said": b"1\r\n{}\r\n0\r\n\r\n", "bare LF after size": b"2\n{}\r\n0\r\n\r\n", "bare LF after chunk": b"2\r\n{}\n0\r\n\r\n",
    "bare CR after size": b"2\r{}\r\n0\r\n\r\n", "space before size": b" 2\r\n{}\r\n0\r\n\r\n", "space after size": b"2 \r\n{}\r\n0\r\n\r\n",
    "bare LF in an extension": b"2;x\ny\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", CHUNKS)
def test_a_chunked_body_that_is_not_well_made_is_refused(server, name):
    """P8"""
    answers, ended = talk(server, post(b"Transfer-Encoding: chunked\r\n", CHUNKS[name] + SMUGGLED))
    assert ended in ("closed", "reset"), f"left open after {answers}"
    assert len(answers) == 1, answers
    problem(answers[0], (400, 413))


@pytest.mark.parametrize("chunks", [[b"{}"], [b"{", b"}"], [b"", b"{}"][1:], [b"{"] + [b" "] * 50 + [b"}"]], ids=["one", "two", "whole", "many"])
def test_a_chunked_body_is_a_body(shop, chunks):
    sale = shop.sale()["id"]
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    head = b"POST /v1/sales/%s/grabs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer %s\r\n\r\n" % (
        sale.encode(), shop.buyer("ann").encode())
    shop.client.send(head + body)
    assert shop.client.receive().status == 201
    assert shop.client.get("/healthz").status == 200, "out of step after a chunked body"


def test_chunks_with_extensions_and_trailers_do_no_harm(shop):
    """A trailer is no header: it must not change who is asking."""
    sale = shop.sale()["id"]
    head = b"POST /v1/sales/%s/grabs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" % sale.encode()
    trailer = b"Authorization: Bearer %s\r\n" % shop.buyer("ann").encode()
    shop.client.send(head + b"2;name=value\r\n{}\r\n0\r\n" + trailer + b"\r\n")
    problem(shop.client.receive(), (400, 401))
    assert shop.counts(sale) == (10, 10, 0, 0)


def test_http_11_without_a_host_is_refused(server):
    """RFC 9112: a request of 1.1 has exactly one Host."""
    for head in (b"GET /healthz HTTP/1.1\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"):
        answers, _ = talk(server, head + b"", seconds=1)
        assert len(answers) == 1
        problem(answers[0], 400)


def mixed(shop, sale, count):
    """Requests of every kind, and what each is to be answered with."""
    requests, statuses = [], []
    for i in range(count):
        kind = i % 5
        if kind == 0:
            requests.append(request_bytes("GET", "/healthz"))
            statuses.append(200)
        elif kind == 1:
            requests.append(request_bytes("POST", f"/v1/sales/{sale}/grabs", {"units": 1}, shop.buyer(f"b{i}")))
            statuses.append(201)
        elif kind == 2:
            requests.append(request_bytes("GET", f"/v1/orders?sale={sale}&limit=1", None, shop.seller_token))
            statuses.append(200)
        elif kind == 3:
            requests.append(request_bytes("GET", "/v1/sales/999999"))
            statuses.append(404)
        else:
            requests.append(request_bytes("POST", "/v1/sales", {"name": "", "stock": 1}, shop.seller_token))
            statuses.append(400)
    return requests, statuses


def test_fifty_requests_in_one_write_are_answered_in_order(shop):
    """Answers that wait for the disk, for SQLite or for nothing come back in the order asked."""
    sale = shop.sale(stock=100)["id"]
    requests, statuses = mixed(shop, sale, 50)
    shop.client.send(b"".join(requests))
    answers = [shop.client.receive() for _ in requests]
    assert [answer.status for answer in answers] == statuses
    buyers = [answer.json()["order"]["buyer"] for answer in answers if answer.status == 201]
    assert buyers == [f"b{i}" for i in range(50) if i % 5 == 1]
    assert shop.counts(sale)[3] == 10


def test_a_pipelined_list_sees_the_win_before_it(shop):
    """P4: pipelined, the list is asked after the grab and shows it, or was asked while it was not yet durable; it never shows half."""
    sale = shop.sale(stock=100)["id"]
    ann = "ann"
    shop.client.send(request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(ann)) + request_bytes("GET", f"/v1/orders?sale={sale}", None, shop.buyer(ann)))
    order = shop.client.receive().json()["order"]
    assert shop.client.receive().json()["items"] in ([], [order])
    assert shop.listed(f"/v1/orders?sale={sale}", shop.buyer(ann)) == [order]


def test_a_request_split_at_every_byte_gets_the_same_answer(shop, server):
    """The same verdict at every split point: of a plain body and of a chunked one, each followed by another request."""
    sale = shop.sale(stock=10 ** 6)["id"]
    plain = b'POST /v1/sales/%s/stock HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"add":1}' % sale.encode()
    chunked = (b"POST /v1/sales/%s/stock HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
               b'4\r\n{"ad\r\n5\r\nd":1}\r\n0\r\n\r\n') % sale.encode()
    for message in (plain + GET, chunked + GET):
        with server.raw() as sock:
            buffer = bytearray()

            def take():
                while True:
                    answer = answer_take(buffer)
                    if answer is not None:
                        return answer
                    piece = sock.recv(65536)
                    assert piece, "closed"
                    buffer.extend(piece)

            for at in range(1, len(message)):
                sock.sendall(message[:at])
                sock.sendall(message[at:])
                assert take().status == 401, f"split at {at}"
                assert take().status == 200, f"split at {at}"
    with server.raw() as sock:
        for byte in plain:
            sock.sendall(bytes([byte]))
        sock.sendall(GET.replace(b"Host: x", b"Host: x\r\nConnection: close"))
        received, ended = read_to_end(sock)
    assert [answer.status for answer in answers_in(received)] == [401, 200] and ended == "closed"


def test_bad_bytes_split_at_every_byte_are_refused_all_the_same(server):
    """A refusal does not depend on where the bytes were cut."""
    for message in (b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
                    post(b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n")):
        for at in range(1, len(message)):
            answers, ended = talk(server, None, pieces=[message[:at], message[at:]])
            assert [answer.status for answer in answers] == [400] and ended is not None, f"split at {at} of {message}: {answers} {ended}"


def test_http_10_is_answered_and_closed(server):
    answers, ended = talk(server, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert [answer.status for answer in answers] == [200] and ended == "closed"


def test_http_10_may_ask_to_stay(server):
    answers, ended = talk(server, b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /healthz HTTP/1.0\r\n\r\n")
    assert [answer.status for answer in answers] in ([200, 200], [200]) and ended == "closed"
    if len(answers) == 2:
        assert answers[0].headers.get("connection", "").lower() == "keep-alive", "RFC 9112: a 1.0 client must be told that it may stay"


def test_connection_close_is_obeyed(server):
    answers, ended = talk(server, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + SMUGGLED)
    assert len(answers) == 1 and ended in ("closed", "reset")
    assert answers[0].headers["connection"].lower() == "close"


def test_empty_lines_before_a_request_are_forgiven_or_refused(server):
    """RFC 9112 lets a server skip an empty line; it must not let it shift what follows."""
    answers, _ = talk(server, b"\r\n" + GET, seconds=1)
    assert [answer.status for answer in answers] in ([200], [400])


def test_head_has_no_body(server):
    """A body after HEAD would be read as the next answer."""
    with server.connect() as client:
        client.send(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + GET)
        first = client.receive(bodyless=True)
        assert first.status in (200, 405), first
        assert client.receive().status == 200


def test_100_continue_is_sent_when_asked_for(shop):
    sale = shop.sale()["id"]
    head = (b"POST /v1/sales/%s/grabs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\nAuthorization: Bearer %s\r\n\r\n"
            % (sale.encode(), shop.buyer("ann").encode()))
    shop.client.send(head)
    assert shop.client.receive().status == 100
    shop.client.send(b"{}")
    assert shop.client.receive().status == 201
    shop.client.send(head + b"{}")
    first = shop.client.receive()
    assert (shop.client.receive() if first.status == 100 else first).code == "ALREADY_WON"
    assert shop.client.get("/healthz").status == 200


def test_a_body_on_a_get_does_not_shift_the_next_request(shop):
    shop.client.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED + request_bytes("GET", "/readyz"))
    first = shop.client.receive()
    assert first.status in (200, 400), first
    if first.status == 200:
        assert shop.client.receive().status == 200
        shop.client.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            shop.client.receive()
        shop.client.close()


def test_a_half_closed_connection_gets_its_answer(server):
    with server.raw() as sock:
        sock.sendall(GET)
        sock.shutdown(socket.SHUT_WR)
        received, _ = read_to_end(sock)
    assert [answer.status for answer in answers_in(received)] == [200]


def test_a_client_that_leaves_in_the_middle_harms_nobody(shop, server):
    """Closed with answers owed, with half a head, with half a body: the server goes on, and what was decided stays decided."""
    sale = shop.sale(stock=1000)["id"]
    for i in range(100):
        whole = request_bytes("POST", f"/v1/sales/{sale}/grabs", {}, shop.buyer(f"left-{i}"))
        sock = server.raw()
        sock.sendall(whole[:len(whole) - i % 3 * 40] if i % 3 else whole * 3)
        if i % 2:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    assert shop.client.get("/healthz").status == 200
    offered, available, _, sold = shop.counts(sale)
    assert sold <= 100 and available == offered - sold
    assert len(shop.listed(f"/v1/orders?sale={sale}", shop.seller_token)) >= sold
