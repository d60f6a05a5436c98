"""How a connection behaves at its edges: what was asked is answered, and nobody is shown out who did nothing wrong."""

import os
import signal
import socket
import subprocess
import time

from harness import Shop, eventually
from wire import answers_in, read_to_end

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def test_requests_sent_before_a_half_close_are_all_answered(server):
    """P9: a peer that sends five requests and shuts its side still gets five answers, then the end."""
    shop = Shop(server)
    sale = shop.sale(stock=100)["id"]
    token = server.token("halfclose")
    grab = f"POST /v1/sales/{sale}/grabs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n".encode()
    with server.raw() as sock:
        sock.sendall(grab * 5)
        sock.shutdown(socket.SHUT_WR)
        data, ended = read_to_end(sock, 10)
    assert [answer.status for answer in answers_in(data)] == [201, 409, 409, 409, 409]
    assert ended is not None


def test_a_steady_stream_that_ends_in_mid_head_is_not_too_slow(server):
    """P9: the time of a head counts from its first byte, not from that of the head before it."""
    with server.raw() as sock:
        sock.settimeout(5)
        half = len(GET) // 2
        sock.sendall(GET[:half])
        for _ in range(14):
            time.sleep(0.5)
            sock.sendall(GET[half:] + GET[:half])
            assert sock.recv(4096).startswith(b"HTTP/1.1 200")


def test_empty_lines_before_a_request_are_skipped(server):
    for lead in (b"\r\n", b"\r\n\r\n"):
        with server.raw() as sock:
            sock.sendall(lead)
            time.sleep(0.05)
            sock.sendall(GET)
            assert sock.recv(4096).startswith(b"HTTP/1.1 200")
    with server.raw() as sock:
        for byte in b"\r\n" + GET:
            sock.sendall(bytes([byte]))
        assert sock.recv(4096).startswith(b"HTTP/1.1 200")


def test_somebody_elses_sale_does_not_exist_whatever_the_change(server):
    """P8: ownership comes before the terms are looked at."""
    shop, other = Shop(server), Shop(server)
    sale = shop.sale()["id"]
    with server.connect() as client:
        for change in ({"description": "mine"}, {"closes_at": "2001-01-01T00:00:00Z"}):
            assert client.patch(f"/v1/sales/{sale}", change, other.seller_token).status == 404


def test_sigusr2_from_a_stranger_changes_nothing(own_server):
    server = own_server()
    os.kill(server.pid, signal.SIGUSR2)
    time.sleep(0.3)
    with server.connect() as client:
        assert client.get("/readyz").status == 200


def test_a_renewed_certificate_counts_after_sighup(own_server, tmp_path):
    def certificate(name):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                        "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"], check=True, capture_output=True)

    def subject(server):
        shown = subprocess.run(["openssl", "s_client", "-connect", f"{server.host}:{server.port}"], input=b"", capture_output=True, timeout=20).stdout
        return shown

    certificate("first")
    server = own_server("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"), tls=True)
    assert b"CN = first" in subject(server)
    certificate("second")
    os.kill(server.pid, signal.SIGHUP)
    eventually(lambda: b"CN = second" in subject(server))
    (tmp_path / "cert.pem").write_text("nonsense")
    os.kill(server.pid, signal.SIGHUP)
    time.sleep(0.3)
    assert b"CN = second" in subject(server)
