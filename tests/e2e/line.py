"""Standing in line, and seeing who does."""

from wire import answer_take, request_bytes

LINE = {"rate_per_s": 50, "size": 100, "timeout_ms": 30000}
SLOW = {"rate_per_s": 1, "size": 100, "timeout_ms": 60000}


def park(server, sale, token, key=None, body=None):
    sock = server.raw(60)
    sock.sendall(request_bytes("POST", f"/v1/sales/{sale}/grabs", body, token, key=key))
    return sock


def hear(sock, seconds=90):
    sock.settimeout(seconds)
    data = bytearray()
    while True:
        answer = answer_take(data)
        if answer is not None:
            return answer
        piece = sock.recv(65536)
        assert piece, "closed without an answer"
        data += piece


def metric(shop, name, type_wanted=None):
    """The number of a metric, 0 where it has none yet; name with its label, if it has one."""
    text = shop.client.get("/metrics").body.decode()
    if type_wanted is not None:
        assert f"# TYPE {name.split('{')[0]} {type_wanted}" in text
    return int(next((line.split()[1] for line in text.splitlines() if line.startswith(name + " ")), 0))


def waiting(shop):
    return metric(shop, "stampede_line_waiting", "gauge")


def parked(shop):
    return metric(shop, "stampede_line_parked", "gauge")


def outcomes(shop, outcome):
    return metric(shop, f'stampede_line_outcomes_total{{outcome="{outcome}"}}', "counter")


def grabs(shop, verdict):
    return metric(shop, f'stampede_grabs_total{{verdict="{verdict}"}}', "counter")


def taken(shop, server, sale):
    """Uses up the slot that is free at once, so that whoever comes next waits."""
    assert hear(park(server, sale, shop.buyer("opener"))).status == 201


def place_of(shop, sale, name):
    answer = shop.client.post(f"/v1/sales/{sale}/line", None, shop.buyer(name))
    assert answer.status == 201, answer
    return f"/v1/sales/{sale}/line/{answer.json()['place']}"


def state_of(shop, path, name):
    answer = shop.client.get(path, shop.buyer(name))
    assert answer.status == 200, answer
    return answer.json()["state"]
