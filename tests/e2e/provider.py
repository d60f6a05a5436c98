"""A payment provider: says what was paid, signed as Standard Webhooks has it, by code that shares nothing with the server's."""

import base64
import hashlib
import hmac
import json
import pathlib
import secrets
import time

from wire import request_bytes


def sign(secret, message_id, timestamp, body):
    """The value of webhook-signature. secret is "whsec_…", timestamp a text."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(mac).decode()


def secret_make(size=32):
    return "whsec_" + base64.b64encode(secrets.token_bytes(size)).decode()


def secrets_of(data):
    """What DATA/payment_keys holds."""
    return [line for line in (pathlib.Path(data) / "payment_keys").read_text().splitlines() if line.startswith("whsec_")]


class Provider:
    """Signs with the first secret of a server's file, or with one it was given."""

    def __init__(self, server, secret=None):
        self.server, self.secret = server, secret or secrets_of(server.data)[0]

    def body(self, order, amount, ref, status="succeeded", **more):
        return json.dumps({"order": order, "amount": amount, "payment_ref": ref, "status": status, **more}, separators=(",", ":")).encode()

    def headers(self, body, message_id=None, timestamp=None, secret=None):
        message_id = message_id or f"msg_{secrets.token_hex(8)}"
        timestamp = str(int(time.time()) if timestamp is None else timestamp)
        return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": sign(secret or self.secret, message_id, timestamp, body)}

    def send(self, client, body, **signing):
        """Any bytes, signed."""
        return client.post("/v1/payments", body, headers=self.headers(body, **signing))

    def tell(self, client, order, ref=None, amount=..., status="succeeded"):
        """order is one as the server shows it; without an amount of its own the payment has the order's."""
        body = self.body(order["no"], order["amount"] if amount is ... else amount, ref or f"pay-{order['no']}", status)
        return self.send(client, body)

    def request(self, order, ref=None):
        """The bytes of a payment, for a crowd."""
        body = self.body(order["no"], order["amount"], ref or f"pay-{order['no']}")
        return request_bytes("POST", "/v1/payments", body, headers=self.headers(body))

    def paid(self, client, order, ref=None, state="paid"):
        """Says it and expects the order in this state; otherwise unchanged."""
        answer = self.tell(client, order, ref)
        assert answer.status == 200, answer
        assert answer.json() == {**order, "state": state}, answer
        return answer.json()
