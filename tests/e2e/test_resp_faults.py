"""The Redis protocol where the disk fails, the server restarts, or a peer is slow to say who it is."""

import re
import socket
import threading
import time

import pytest
from harness import Server, eventually, mint_name, unhurried
from resp import Closed, Peer, command, pairs

SECRET = "correct-horse-battery-staple"


@pytest.fixture
def guarded(own_server, tmp_path):
    """A server that asks who a peer is."""
    path = tmp_path / "accounts"
    path.write_text(f"shop {SECRET}\n")
    path.chmod(0o600)
    return own_server("--resp-accounts", path)


def replies_of(peer):
    """All of them, until the server closes."""
    got = []
    try:
        while True:
            got.append(peer.reply())
    except Closed:
        return got


@pytest.mark.sqlite
def test_a_disk_that_fails_leaves_one_reply_for_each_command_and_no_win(tmp_path):
    """A look-up that the ledger still works on when the disk fails gave its WON to another command."""
    with Server(segment_mb=4) as server:
        with Peer(server) as peer:
            def won_before(closes_in_s):
                past = peer.ask("SALE.CREATE", mint_name("past"), 5, "CLOSES", int((time.time() + closes_in_s) * 1000))
                assert peer.ask("SALE.GRAB", past, "ann", "KEY", "k")[0] == "WON"
                return past
            past = unhurried(won_before)
            peer.ask("SALE.CREATE", "tickets", 50)
            eventually(lambda: pairs(peer.ask("SALE.INFO", past))["state"] == "closed")
            time.sleep(1)
        server.stop()
        segment = sorted((server.data / "journal").glob("*.seg"))[-1]
        paths = [word for path in (segment, server.data / "ledger.db", server.data / "ledger.db-shm") for word in ("-P", str(path))]
        # The locks of the ledger are slow, so that the disk fails before the look-up is answered.
        server.start(prefix=["strace", "-f", "-qq", "-o", str(tmp_path / "calls"), *paths, "-e", "trace=fdatasync,fcntl",
                             "-e", "inject=fdatasync:error=EIO:when=1+", "-e", "inject=fcntl:delay_enter=40000"])
        time.sleep(5)
        with Peer(server) as peer:
            peer.send(b"".join(command(*words) for words in [("SALE.GRAB", "tickets", "bob"), ("SALE.LEFT", "tickets"),
                                                             ("SALE.GRAB", past, "ann", "KEY", "k"), ("SALE.GRAB", "tickets", "cat"), ("SALE.LEFT", "tickets")]))
            got = replies_of(peer)
        assert len(got) in (3, 5), "up to the look-up, or all where it was answered before the disk failed"
        assert all(getattr(reply, "code", reply) == "OUTCOME_UNKNOWN" for reply in got), got
        assert server.wait(30) != 0


def test_a_stranger_that_reads_slowly_gains_no_time(guarded):
    """Each reply that it let wait began its ten seconds anew."""
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stranger.connect((guarded.host, guarded.resp_port))
        stranger.settimeout(0.2)
        end = time.monotonic() + 60
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            while time.monotonic() < end:
                try:
                    for _ in range(200):
                        stranger.send(b"PING\r\n" * 2000)
                except TimeoutError:
                    pass
                try:
                    for _ in range(50):
                        stranger.recv(65536)
                except TimeoutError:
                    pass


def test_a_stranger_that_says_reset_gains_no_time(guarded):
    with Peer(guarded) as stranger:
        end = time.monotonic() + 60
        with pytest.raises((Closed, BrokenPipeError, ConnectionResetError)):
            while time.monotonic() < end:
                assert stranger.ask("RESET") == "RESET"
                time.sleep(0.5)


def test_after_reset_there_is_time_to_say_who_one_is_again(guarded):
    """A connection older than ten seconds was cut off at once."""
    with Peer(guarded) as peer:
        assert peer.ask("AUTH", "shop", SECRET) == "OK"
        time.sleep(11)
        assert peer.ask("RESET") == "RESET"
        time.sleep(2)
        assert peer.ask("PING").code == "NOAUTH"
        assert peer.ask("AUTH", "shop", SECRET) == "OK" and peer.ask("PING") == "PONG"


def test_after_reset_a_peer_counts_among_the_strangers_of_its_address(own_server, tmp_path):
    path = tmp_path / "accounts"
    path.write_text(f"shop {SECRET}\n")
    path.chmod(0o600)
    server = own_server("--resp-accounts", path, "--limits", "connections_per_ip=2")
    peers = []
    for _ in range(3):
        peers.append(Peer(server))
        assert peers[-1].ask("AUTH", "shop", SECRET) == "OK"
        time.sleep(1.2)  # who is known is counted no more from the next look on
    assert [peer.ask("RESET") for peer in peers] == ["RESET"] * 3
    assert peers[0].ask("PING").code == "NOAUTH" and peers[1].ask("PING").code == "NOAUTH"
    assert peers[2].rest() == b"", "the third is more than the address may have"
    for peer in peers:
        peer.close()


def number(server, metric):
    with server.connect() as client:
        text = client.get("/metrics").body.decode()
    return int(re.search(rf"^{metric} (\d+)$", text, re.M).group(1))


def stuff(peer, replies):
    """Asks for more than the connection holds and reads none of it: how many bytes of commands the server took."""
    peer.sock.settimeout(1)
    sent = 0
    try:
        while sent < len(replies):
            sent += peer.sock.send(replies[sent:sent + 65536])
    except TimeoutError:
        pass
    return sent


def drip(peer, ended):
    """Takes the bytes of a reply one by one, which is no reading either."""
    try:
        while not ended.wait(0.2):
            peer.sock.recv(1)
    except OSError:
        pass


def test_a_peer_that_takes_no_replies_for_30_seconds_is_cut_off(own_server):
    """Not one that is quiet, nor one that reads again in time: that misses nothing."""
    server = own_server()
    piece, ended = command("ECHO", "x" * 8000), threading.Event()
    with Peer(server) as never, Peer(server) as late, Peer(server) as quiet, Peer(server) as slow:
        assert quiet.ask("PING") == "PONG"
        began = time.monotonic()
        sent = {peer: stuff(peer, piece * 8000) for peer in (never, slow, late)}
        assert max(sent.values()) < len(piece) * 8000, "they are asked no more"
        dripping = threading.Thread(target=drip, args=(slow, ended))
        dripping.start()
        time.sleep(max(0.0, began + 18 - time.monotonic()))
        assert number(server, "stampede_resp_connections") == 4, "each has its time"
        late.sock.settimeout(20)
        for _ in range(sent[late] // len(piece)):
            assert late.reply() == "x" * 8000

        eventually(lambda: number(server, "stampede_resp_connections") == 2 or None, 60)
        assert time.monotonic() - began > 25
        assert number(server, "stampede_connection_timeouts_total") == 2
        ended.set()
        dripping.join()
        with pytest.raises(ConnectionError):
            while True:
                never.send(piece)
        late.send(piece[sent[late] % len(piece):])  # the rest of the one that was sent by half
        assert late.reply() == "x" * 8000 and late.ask("PING") == "PONG" and quiet.ask("PING") == "PONG"
