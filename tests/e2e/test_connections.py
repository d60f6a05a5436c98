"""Many connections, too few file descriptors, TLS (P9)."""

import concurrent.futures
import contextlib
import resource
import socket
import ssl
import subprocess
import time

import pytest
from harness import Server, Shop, answers_in, crowd, eventually, mint_name, read_to_end, request_bytes
from line import outcomes, park, parked

GET = request_bytes("GET", "/healthz")


@contextlib.contextmanager
def held(server, count):
    """So many connections that say nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 500:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 1000), hard))
    socks = []
    try:
        for _ in range(count):
            socks.append(server.raw(20))
        yield socks
    finally:
        for sock in socks:
            sock.close()


def test_two_thousand_idle_connections_are_held_and_served(own_server):
    """P9: each of them still gets its answer, and idle ones cost little."""
    server = own_server()
    shop = Shop(server)
    shop.client.get("/healthz")
    before = server.memory_kb()
    with held(server, 2000) as socks:
        assert shop.client.get("/healthz").status == 200
        eventually(lambda: connections_now(shop) >= 2000)
        grown = server.memory_kb() - before
        for sock in socks:
            sock.sendall(GET)
        for sock in socks:
            data = bytearray()
            while b"\r\n\r\n" not in data:
                piece = sock.recv(65536)
                assert piece, "closed instead of answered"
                data += piece
            assert data.startswith(b"HTTP/1.1 200"), data
    eventually(lambda: connections_now(shop) <= 5)
    assert grown <= 2000 * 32, f"{grown} KB for 2,000 idle connections"


def metric(shop, name):
    for line in shop.client.get("/metrics").body.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise AssertionError(f"no metric {name}")


def connections_now(shop):
    return metric(shop, "stampede_connections_accepted_total") - metric(shop, "stampede_connections_closed_total")


def test_running_out_of_descriptors_is_a_clean_refusal_and_no_spin(own_server):
    """P9: 300 connections on 128 descriptors. Those beyond get 503 or are closed, the processor rests, sales go on, and when the crowd leaves all is well."""
    server = own_server("--limits", "connections_per_ip=0", prefix=["prlimit", "--nofile=128:128"])
    shop = Shop(server)
    sale = shop.sale(stock=1000)["id"]
    shop.win(sale, "first")
    socks = []
    try:
        for _ in range(300):
            sock = socket.socket()
            sock.settimeout(5)
            sock.connect((server.host, server.port))
            socks.append(sock)
        time.sleep(0.5)
        used = server.cpu_s()
        time.sleep(2)
        used = server.cpu_s() - used
        assert used < 0.6, f"{used:.2f} s of processor in 2 s of rest"
        shop.win(sale, "second")
        refused = served = waiting = 0
        for sock in socks:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sock.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        for sock in socks:
            data, ended = read_to_end(sock, 2 if waiting < 3 else 0.05)
            statuses = [answer.status for answer in answers_in(data)]
            assert statuses in ([200], [503], []), statuses
            served += statuses == [200]
            refused += statuses != [200] and ended is not None
            waiting += statuses != [200] and ended is None
        assert served >= 20 and served + refused + waiting == 300, (served, refused, waiting)
    finally:
        for sock in socks:
            sock.close()
    shop.win(sale, "third")
    eventually(lambda: connections_now(shop) <= 5)
    answers = crowd(server, [GET] * 100, 40)
    assert {answer.status for answer in answers} == {200}
    with server.connect() as fresh:
        assert fresh.get(f"/v1/orders?sale={sale}", shop.seller_token).status == 200


def test_connections_beyond_the_configured_limit_are_refused(own_server):
    """P9: with connections_max = 50 the 51st hears 503 or is closed; a place that becomes free is given."""
    server = own_server("--connections-max", "50", "--limits", "connections_per_ip=0")
    with held(server, 50) as socks:
        for sock in socks:
            sock.sendall(GET)
        assert sum(sock.recv(4096).startswith(b"HTTP/1.1 200") for sock in socks) == 50
        for _ in range(20):
            with server.raw() as sock:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    sock.sendall(GET)
                data, ended = read_to_end(sock, 5)
                answers = answers_in(data)
                assert ended is not None and [answer.status for answer in answers] in ([503], []), answers
                for answer in answers:
                    assert int(answer.headers["retry-after"]) >= 1
        socks[0].sendall(GET)
        assert socks[0].recv(4096).startswith(b"HTTP/1.1 200")
    with server.connect() as client:
        eventually(lambda: client_ok(client))


def test_one_address_never_holds_all_the_connections_there_can_be(own_server):
    """P9: by default, also where the system allows far fewer connections than are configured."""
    server = own_server(prefix=["prlimit", "--nofile=400:400"])
    assert "connections_per_ip 20000 is more than half" in server.log()
    with held(server, 400):
        with socket.create_connection((server.host, server.port), timeout=5, source_address=("127.0.0.2", 0)) as sock:
            sock.sendall(GET)
            assert sock.recv(4096).startswith(b"HTTP/1.1 200")


def client_ok(client):
    try:
        return client.get("/healthz").status == 200
    except ConnectionError:
        client.close()
        return False


# TLS.

@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True, timeout=60)
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture(scope="module")
def secure(certificate):
    server = Server("--tls-cert", certificate[0], "--tls-key", certificate[1])
    plain_raw = server.raw
    context = ssl.create_default_context(cafile=str(certificate[0]))
    server.raw = lambda timeout=10: context.wrap_socket(plain_raw(timeout), server_hostname="localhost")
    server.plain_raw = plain_raw
    with server.start():
        yield server


def test_everything_works_over_tls(secure):
    """The whole way of a sale, with a client that checks the certificate."""
    shop = Shop(secure)
    sale = shop.sale(stock=2)["id"]
    order = shop.win(sale, "ann", key="k")
    assert shop.win(sale, "ann", key="k") == order
    assert shop.listed(f"/v1/orders?sale={sale}", shop.buyer("ann")) == [order]
    name = mint_name("user")
    assert shop.client.post("/v1/users", {"username": name, "password": "long enough", "role": "customer"}).status == 201
    assert shop.client.sock.version() in ("TLSv1.2", "TLSv1.3")
    shop.close()


def test_pipelining_and_large_bodies_work_over_tls(secure):
    shop = Shop(secure)
    sale = shop.sale(stock=100)["id"]
    shop.client.send(b"".join(request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{i}")) for i in range(50)))
    buyers = [shop.client.receive().json()["order"]["buyer"] for _ in range(50)]
    assert buyers == [f"b{i}" for i in range(50)]
    body = b'{"units":1' + b" " * 65000 + b"}"
    assert shop.client.post(f"/v1/sales/{sale}/grabs", body, shop.buyer("late")).status == 201
    for byte in GET:
        shop.client.send(bytes([byte]))
    assert shop.client.receive().status == 200
    assert len(shop.client.get("/openapi.yaml").body) > 1000
    shop.close()


def test_a_crowd_over_tls(secure):
    shop = Shop(secure)
    sale = shop.sale(stock=20)["id"]
    requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{i}")) for i in range(60)]

    def ask(request):
        with secure.connect() as client:
            client.send(request)
            return client.receive().status

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(ask, requests))
    assert statuses.count(201) == 20 and statuses.count(409) == 40
    shop.close()


def test_a_goodbye_of_tls_leaves_the_line(secure):
    """The peer keeps its socket open and says no more than that it is done: it takes nothing."""
    shop = Shop(secure)
    sale = shop.sale(stock=100, admission="line", line={"rate_per_s": 1, "size": 100, "timeout_ms": 60000})["id"]
    before = outcomes(shop, "left")
    socks = [park(secure, sale, shop.buyer(f"b{i}")) for i in range(30)]
    eventually(lambda: parked(shop) >= 28)
    with contextlib.suppress(OSError):
        socks[-1].settimeout(1)
        socks[-1].unwrap()
    eventually(lambda: outcomes(shop, "left") == before + 1, seconds=5)
    for sock in socks:
        sock.close()
    shop.close()


@pytest.mark.parametrize("version,taken", [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_only_tls_12_and_newer(secure, version, taken):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    sock = secure.plain_raw()
    if taken:
        with context.wrap_socket(sock) as talk:
            talk.sendall(GET)
            assert talk.recv(65536).startswith(b"HTTP/1.1 200")
    else:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(sock)
        sock.close()


def test_plain_words_on_the_tls_port_are_refused(secure):
    with secure.plain_raw() as sock:
        sock.sendall(GET)
        data, ended = read_to_end(sock, 8)
    assert ended is not None and b"200 OK" not in data


def test_a_handshake_that_never_comes_is_shown_out(secure):
    """P9: the time for a head counts from the connection, handshake included."""
    with secure.plain_raw() as half:
        half.sendall(b"\x16\x03\x01\x02\x00\x01")
        _, ended = read_to_end(half, 12)
    assert ended is not None


def test_a_cut_tls_connection_harms_nobody(secure):
    for i in range(20):
        sock = secure.raw()
        sock.sendall(GET * 10)
        if i % 2:
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()
    with secure.connect() as client:
        assert client.get("/healthz").status == 200
