"""What is no request is refused at each door in the words of that door, for its clients read no others."""

import concurrent.futures

import pytest
from wire import answer_take

# (a request line that begins right, what an answer there holds, its first value)
DOORS = {
    "POST /api/auth": (["kind", "errMsg"], ""),
    "POST /api/auth/": (["kind", "errMsg"], ""),
    "POST /api/users": (["errMsg"], None),
    "PATCH /api/users/a/coupons/b": (["errMsg"], None),
    "POST /api/nothing": (["errMsg"], None),
    "POST /luck": (["won", "code", "detail"], False),
    "GET /luck/1": (["won", "code", "detail"], False),
    "PUT /shop/cart/add": (["code", "data", "msg"], None),
}


def said(server, data):
    """The one answer, after which the server closes."""
    with server.raw(60) as sock:
        sock.sendall(data)
        got = bytearray()
        while piece := sock.recv(65536):
            got += piece
    answer = answer_take(got)
    assert answer is not None and not got, got
    return answer


def in_its_words(line, answer, status):
    fields, first = DOORS[line]
    assert answer.status == status and answer.headers["content-type"] == "application/json", (line, answer)
    body = answer.json()
    assert list(body) == fields, (line, answer)
    if fields[0] == "code":
        assert body == {"code": status, "data": None, "msg": body["msg"]} and body["msg"], answer
    elif first is not None:
        assert body[fields[0]] == first and body[fields[-1]], answer
    else:
        assert body["errMsg"], answer


REFUSED = {
    "a body too large": (413, b"Content-Type: application/json\r\nContent-Length: 65537\r\n\r\n"),
    "chunks too large": (413, b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n"),
    "no chunk": (400, b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
    "two lengths": (400, b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
    "no header": (400, b"no colon\r\n\r\n"),
    "a head too large": (431, b"X-Large: " + b"x" * 9000),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("line", DOORS)
def test_what_cannot_be_read_is_refused_in_the_words_of_the_door(server, line, what):
    status, rest = REFUSED[what]
    in_its_words(line, said(server, line.encode() + b" HTTP/1.1\r\nHost: x\r\n" + rest), status)


def test_a_body_that_does_not_come_is_told_so_in_the_words_of_the_door(server):
    def wait(line):
        return line, said(server, line.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{")
    with concurrent.futures.ThreadPoolExecutor(len(DOORS)) as pool:
        for line, answer in pool.map(wait, DOORS):
            in_its_words(line, answer, 408)


@pytest.mark.parametrize(("line", "allow"), [("POST /api/auth", "POST"), ("POST /api/users", "POST"), ("POST /luck", "GET, POST"), ("PUT /shop/cart/add", "PUT")])
def test_another_method_is_refused_in_the_words_of_the_door(server, line, allow):
    answer = said(server, b"DELETE " + line.split()[1].encode() + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    in_its_words(line, answer, 405)
    assert answer.headers["allow"] == allow


def test_who_asks_at_no_door_hears_a_problem(server):
    for path in ("/v1/login", "/apis", "/lucky", "/shopping"):
        answer = said(server, f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n".encode())
        assert answer.status == 413 and answer.code == "BODY_TOO_LARGE", answer
