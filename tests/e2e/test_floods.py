"""Floods of logins and registrations, from ever new addresses so that no limit by address stops them: who buys does not notice, and who
knows a password gets in (P8, P9)."""

import itertools
import select
import selectors
import threading

import pytest
from harness import Shop, answer_take, beside, mint_name, request_bytes

PASSWORD = "correct horse"


@pytest.fixture
def server(own_server):
    return own_server("--proxies", "127.0.0.1", "--drain-ms-max", 500)


def from_anywhere(n):
    return {"X-Forwarded-For": f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"}


def wrong_login(n):
    return request_bytes("POST", "/v1/login", {"username": f"nobody-{n}", "password": "wrong password"}, headers=from_anywhere(n))


def registration(n):
    return request_bytes("POST", "/v1/users", {"username": f"flood-{n}", "password": PASSWORD, "role": "customer"}, headers=from_anywhere(n))


class Flood:
    """Connections that each ask again as soon as they are answered, until the flood ends."""

    def __init__(self, server, request_of, connections):
        self.statuses, self.requests, self.ending = [], map(request_of, itertools.count()), threading.Event()
        self.selector = selectors.DefaultSelector()
        self.socks = [server.raw(30) for _ in range(connections)]
        self.going = beside(self.run, until=self.ending)

    def run(self):
        for sock in self.socks:
            self.selector.register(sock, selectors.EVENT_READ, bytearray())
            sock.sendall(next(self.requests))
        while not self.ending.is_set():
            for ready, _ in self.selector.select(0.1):
                piece = ready.fileobj.recv(65536)
                assert piece, "closed without an answer"
                ready.data.extend(piece)
                answer = answer_take(ready.data)
                if answer is not None:
                    self.statuses.append(answer.status)
                    ready.fileobj.sendall(next(self.requests))

    def __enter__(self):
        self.going.__enter__()
        return self

    def __exit__(self, *error):
        try:
            return self.going.__exit__(*error)
        finally:
            self.selector.close()
            for sock in self.socks:
                sock.close()


def user(server, name=None):
    name = name or mint_name("user")
    with server.connect() as client:
        return name, client.post("/v1/users", {"username": name, "password": PASSWORD, "role": "customer"})


def login(server, name, timeout=60):
    with server.connect(timeout) as client:
        return client.post("/v1/login", {"username": name, "password": PASSWORD})


def test_buyers_and_a_correct_login_in_a_flood_of_logins_and_registrations(server):
    shop = Shop(server)
    sale = shop.sale(stock=10000)["id"]
    owner, made = user(server)
    assert made.status == 201, made
    with Flood(server, wrong_login, 40) as logins, Flood(server, registration, 40) as registrations:
        for i in range(300):
            answer = shop.grab(sale, f"early-{i}")
            assert answer.status == 201, answer
        answer = login(server, owner)
        assert answer.status == 200, answer
        assert shop.grab(sale, token=answer.json()["token"]).status == 201, "the login is of use at once"
        newcomer, made = user(server)
        assert made.status == 201, made
        assert login(server, newcomer).status == 200
        for i in range(300):
            answer = shop.grab(sale, f"late-{i}")
            assert answer.status == 201, answer
        assert shop.grab(sale, "late-0").code == "ALREADY_WON"
    assert shop.counts(sale) == (10000, 10000 - 601, 0, 601)
    assert len(logins.statuses) > 10 and len(registrations.statuses) > 10, "there was no flood"
    assert set(logins.statuses) == {401} and set(registrations.statuses) == {201}
    shop.close()


def test_registrations_that_fill_their_queue_do_not_keep_a_login_out(server):
    owner, made = user(server)
    assert made.status == 201, made
    flood = []
    try:
        for n in range(1200):
            flood.append(server.raw(30))
            flood[-1].sendall(registration(n))
        answer = login(server, owner)
        assert answer.status == 200, answer
        by_number = {sock.fileno(): sock for sock in flood}
        waiting = select.poll()
        for number in by_number:
            waiting.register(number, select.POLLIN)
        answered = waiting.poll(0)
        assert len(answered) < 600, f"the login waited until {len(answered)} of 1,200 registrations were answered"
        answers = [answer_take(bytearray(by_number[number].recv(65536))) for number, _ in answered]
        refused = [answer for answer in answers if answer.status == 503]
        assert len(refused) > 50, f"{len(refused)} of 1,200 were refused: their queue was not full"
        assert {answer.code for answer in refused} == {"BUSY"} and all("retry-after" in answer.headers for answer in refused)
        shop = Shop(server)
        shop.win(shop.sale()["id"], "ann")
        shop.close()
    finally:
        for sock in flood:
            sock.close()


def test_registering_has_a_limit_of_its_own(own_server):
    server = own_server("--limits", "ip_register_per_s=1,ip_register_burst=2")
    owner, made = user(server)
    assert made.status == 201, made
    statuses = [user(server)[1].status for _ in range(30)]
    assert statuses[0] == 201 and statuses.count(429) >= 10, statuses
    assert login(server, owner).status == 200
    with server.connect() as client:
        limits = client.get("/v1/limits", server.token("root", "admin")).json()
        assert limits["ip_register_per_s"] == 1 and limits["ip_register_burst"] == 2
        assert "stampede_breaker_register 0" in client.get("/metrics").body.decode()
