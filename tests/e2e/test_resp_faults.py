"""The Redis protocol where the disk fails, the server restarts, or a peer is slow to say who it is."""

import time

from harness import Server
from resp import Closed, Peer, command


def replies_of(peer):
    """All of them, until the server closes."""
    got = []
    try:
        while True:
            got.append(peer.reply())
    except Closed:
        return got


def test_a_disk_that_fails_leaves_one_reply_for_each_command_and_no_win(tmp_path):
    """A look-up that the ledger still works on when the disk fails gave its WON to another command."""
    with Server(segment_mb=4) as server:
        with Peer(server) as peer:
            past = peer.ask("SALE.CREATE", "past", 5, "CLOSES", int(time.time() * 1000) + 1200)
            assert peer.ask("SALE.GRAB", "past", "ann", "KEY", "k")[0] == "WON"
            peer.ask("SALE.CREATE", "tickets", 50)
            time.sleep(2)
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
