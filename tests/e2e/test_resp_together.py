"""Grabs that many peers send at once, one each: they are decided together, and answered each to whoever asked, in their protocol."""

import signal
import socket
import struct

import pytest
from harness import Server, mint_name
from resp import Closed, Peer, command

PEERS = 150  # more than are decided together


@pytest.fixture
def halted(server):
    """Runs what it is given while the server stands still, so that its loop finds all of it at once."""
    def run(work):
        server.process.send_signal(signal.SIGSTOP)
        try:
            work()
        finally:
            server.process.send_signal(signal.SIGCONT)
    return run


@pytest.fixture
def crowd(server):
    peers = [Peer(server) for _ in range(PEERS)]
    yield peers
    for peer in peers:
        peer.close()


def create(server, stock, *more):
    name = mint_name("together")
    with Peer(server) as maker:
        maker.ask("SALE.CREATE", name, stock, *more)
    return name


def test_each_of_a_crowd_hears_its_own_answer(server, halted, crowd):
    """Winners, those who come twice, those for whom nothing is left, mistakes and other questions, each in a protocol of its own."""
    name = create(server, 50, "UNITS", 2)
    for nth, peer in enumerate(crowd):
        peer.ask("HELLO", 2 + nth % 2)

    def ask():
        for nth, peer in enumerate(crowd):
            peer.send(command("SALE.GRAB", name, f"u{nth % 100}") if nth % 10 else command("SALE.GRAB", name, f"u{nth}", 3))
    halted(ask)
    got = []
    for nth, peer in enumerate(crowd):
        peer.fill()
        nothing = b"_\r\n" if nth % 2 else b"$-1\r\n"
        raw = bytes(peer.buffer)
        got.append(peer.reply())
        assert (nothing in raw) == (got[-1][1] is None), raw
    assert [reply[0] for reply in got[::10]] == ["OVER_LIMIT"] * 15
    told = {}
    for nth, reply in enumerate(got):
        if nth % 10:
            told.setdefault(nth % 100, []).append(reply)
    words = sorted(tuple(sorted(reply[0] for reply in replies)) for replies in told.values())
    won = [reply[1] for replies in told.values() for reply in replies if reply[0] == "WON"]
    assert len(won) == len(set(won)) == 50
    assert set(words) <= {("WON",), ("ALREADY_WON", "WON"), ("SOLD_OUT",), ("SOLD_OUT", "SOLD_OUT")}
    for replies in told.values():
        assert len({reply[1] for reply in replies}) == 1, "who asks twice hears of one order, and who has none of none"


def test_what_one_asks_behind_a_grab_is_answered_behind_it(server, halted, crowd):
    """The grab is left to be decided with those of others; what is no grab must not come before its answer."""
    name = create(server, 1000, "GRABS", 3)

    def ask():
        for nth, peer in enumerate(crowd):
            grab = command("SALE.GRAB", name, f"u{nth}")
            peer.send((grab, grab + command("ECHO", nth), command("ECHO", nth) + grab, grab + command("SALE.GRAB", name, f"u{nth}", 1, "KEY", "k"),
                       grab + b"*1\r\n$4\r\nPI", grab + command("SALE.GRAB", name, ""))[nth % 6])
    halted(ask)
    for nth, peer in enumerate(crowd):
        if nth % 6 == 2:
            assert peer.reply() == str(nth)
        assert peer.reply()[0] == "WON"
        if nth % 6 == 1:
            assert peer.reply() == str(nth)
        elif nth % 6 == 3:
            assert peer.reply()[0] == "WON"
        elif nth % 6 == 4:
            peer.send(b"NG\r\n")
            assert peer.reply() == "PONG"
        elif nth % 6 == 5:
            assert peer.reply().code == "BAD_INPUT"
    with Peer(server) as one:
        assert one.ask("SALE.LEFT", name) == 1000 - PEERS - PEERS // 6


def test_who_has_said_all_hears_the_answer_and_who_has_gone_holds_up_nobody(server, halted, crowd):
    """Some end what they send right behind the grab, some say QUIT, some break the connection."""
    name = create(server, 1000)

    def ask():
        for nth, peer in enumerate(crowd):
            peer.send(command("SALE.GRAB", name, f"u{nth}") + (command("QUIT") if nth % 4 == 1 else b""))
            if nth % 4 == 2:
                peer.sock.shutdown(socket.SHUT_WR)
            elif nth % 4 == 3:
                peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.close()
    halted(ask)
    for nth, peer in enumerate(crowd):
        if nth % 4 == 3:
            continue
        assert peer.reply()[0] == "WON"
        if nth % 4 == 1:
            assert peer.reply() == "OK"
        if nth % 4 in (1, 2):
            with pytest.raises(Closed):
                peer.reply()
    with Peer(server) as one:
        assert one.ask("SALE.GRAB", name, "u0")[0] == "ALREADY_WON"


def test_what_a_crowd_hears_of_a_server_that_stops_is_true():
    """Who is answered has what they were told, also after the restart; the others see their connection end."""
    with Server() as server:
        name = create(server, 1000)
        peers = [Peer(server) for _ in range(PEERS)]
        for nth, peer in enumerate(peers):
            peer.send(command("SALE.GRAB", name, f"u{nth}"))
        won = {"u0": peers[0].reply()}
        server.process.send_signal(signal.SIGTERM)
        for nth, peer in enumerate(peers[1:], 1):
            try:
                won[f"u{nth}"] = peer.reply()
            except Closed:
                pass
            peer.close()
        assert {reply[0] for reply in won.values()} == {"WON"}
        assert server.wait(30) == 0
        server.start()
        with Peer(server) as one:
            for user, told in won.items():
                assert one.ask("SALE.GRAB", name, user)[:2] == ["ALREADY_WON", told[1]]
