"""A client of the coupon system, as the course's own programs speak: the token bare in Authorization, errMsg in every answer."""

import json
import urllib.parse

from harness import request_bytes

PASSWORD = "pw"


def coupons_path(name, coupon=None):
    path = f"/api/users/{urllib.parse.quote(name, safe='')}/coupons"
    return path if coupon is None else f"{path}/{urllib.parse.quote(coupon, safe='')}"


def grab_bytes(token, seller, coupon):
    return request_bytes("PATCH", coupons_path(seller, coupon), headers={"Authorization": token})


class Coupons:
    """On one connection; each call answers an Answer."""

    def __init__(self, server):
        self.server = server
        self.client = server.connect()

    def close(self):
        self.client.close()

    def ask(self, method, path, body=None, token=None, **headers):
        given = {"Authorization": token} if token else {}
        return self.client.request(method, path, body, headers={**given, **headers})

    def register(self, username, kind="customer", password=PASSWORD):
        return self.ask("POST", "/api/users", {"username": username, "password": password, "kind": kind})

    def login(self, username, password=PASSWORD):
        return self.ask("POST", "/api/auth", {"username": username, "password": password})

    def enter(self, username, kind="customer"):
        """Registered and logged in: the token."""
        made = self.register(username, kind)
        assert made.status == 201 and made.json() == {"errMsg": ""}, made
        answer = self.login(username)
        assert answer.status == 200 and answer.json() == {"kind": kind, "errMsg": ""}, answer
        return answer.headers["authorization"]

    def create(self, token, seller, name, amount=10, stock=100, description="a coupon"):
        return self.ask("POST", coupons_path(seller), {"name": name, "amount": amount, "stock": stock, "description": description}, token)

    def grab(self, token, seller, coupon):
        return self.ask("PATCH", coupons_path(seller, coupon), None, token)

    def list(self, token, name, page=None):
        return self.ask("GET", coupons_path(name) + ("" if page is None else f"?page={page}"), None, token)

    def everything(self, token, name):
        """Every row of a list, page by page."""
        rows = []
        for page in range(1, 1000):
            answer = self.list(token, name, page)
            if answer.status == 204:
                return rows
            assert answer.status == 200, answer
            rows += answer.json()["data"]
        raise AssertionError("the list does not end")


def says(answer, status, message, **more):
    """Checks status and the whole body."""
    assert answer.status == status, f"expected {status} {message!r}: {answer!r}"
    assert answer.headers["content-type"].startswith("application/json"), answer
    assert json.loads(answer.body) == {"errMsg": message, **more}, answer


def nothing(answer):
    assert answer.status == 204 and answer.body == b"", answer
