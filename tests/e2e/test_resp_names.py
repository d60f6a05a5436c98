"""The names of RESP accounts and of their buyers are nobody else's, also when the account is gone (P8)."""

import os
import signal

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from harness import eventually, gate_flags, ledger_flags, problem, run
from resp import Peer

SECRET = "correct-horse-battery-staple"


@pytest.fixture
def accounts(tmp_path):
    """Writes the file of accounts."""
    path = tmp_path / "accounts"

    def write(*names):
        path.write_text("".join(f"{name} {SECRET}\n" for name in names))
        path.chmod(0o600)
        return path
    return write


def nobody_gets(server, name):
    with server.connect() as client:
        for role in ("customer", "seller"):
            problem(client.post("/v1/users", {"username": name, "password": "long enough", "role": role}), 409, "USERNAME_TAKEN")
        taken = client.post("/api/users", {"username": name, "password": "p", "kind": "saler"})
        assert (taken.status, taken.json()["errMsg"]) == (400, "Insert user failed. Maybe user name duplicates."), taken
        # Nodes that share a gate remember guesses over a restart of one.
        for password in (SECRET, "long enough", " "):
            answer = client.post("/v1/login", {"username": name, "password": password})
            assert (answer.status, answer.code) in ((401, "BAD_LOGIN"), (429, "TOO_MANY_TRIES")), answer


def test_the_name_of_an_account_that_never_sold_stays_its_own(own_server, accounts):
    """Once the account was out of the file anybody could register it, and owned its sales when it came back."""
    path = accounts("shop", "other")
    server = own_server("--resp-accounts", path)
    nobody_gets(server, "shop")
    accounts("other", "third")
    os.kill(server.pid, signal.SIGHUP)
    with Peer(server) as peer:
        eventually(lambda: peer.ask("AUTH", "third", SECRET) == "OK" or None)
    accounts("other")
    server.restart(kill=True)
    for name in ("shop", "third"):
        nobody_gets(server, name)
    server.flags = []
    server.restart()
    nobody_gets(server, "shop")
    done = run("admin", "create", "shop", "--data", server.data, stdin=b"long enough\n")
    assert done.code != 0 and "shop" in done.text, done

    server.flags = ["--resp-accounts", str(accounts("shop"))]
    server.restart()
    with Peer(server) as peer:
        assert peer.ask("AUTH", "shop", SECRET) == "OK"
        sale = peer.ask("SALE.CREATE", "tickets", 5)
        assert peer.ask("SALE.GRAB", "tickets", "ann")[0] == "WON"
    with server.connect() as client:
        assert client.get(f"/v1/sales/{sale}").json()["seller"] == "shop"
        problem(client.post("/v1/users", {"username": "shop:ann", "password": "long enough", "role": "customer"}), 400, "BAD_INPUT")
    server.stop()
    assert server.audit().code == 0
    server.start()


def test_a_user_who_had_the_name_first_is_told_of(own_server, accounts):
    """The operator means it, or sees it in the log and chooses another."""
    server = own_server("--resp-accounts", accounts("other"))
    early = {"username": "early", "password": "long enough"}
    with server.connect() as client:
        assert client.post("/v1/users", {**early, "role": "seller"}).status == 201
    accounts("other", "early", "late")
    os.kill(server.pid, signal.SIGHUP)
    eventually(lambda: "RESP account early has the name of a user" in server.log() or None)
    assert "account other has" not in server.log() and "account late has" not in server.log()
    with server.connect() as client:
        assert client.post("/v1/login", early).status == 200, "who has the name keeps it"


@pytest.mark.parametrize("issuer", ["shop", "shop:eu", "default", "default:eu"])
def test_an_identity_provider_is_not_called_like_an_account(own_server, accounts, tmp_path, issuer):
    """Its buyers are ISSUER:SUBJECT, those of an account ACCOUNT:USER."""
    key = tmp_path / "key.pem"
    key.write_bytes(ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(serialization.Encoding.PEM,
                                                                                   serialization.PublicFormat.SubjectPublicKeyInfo))
    provider = ["--identity-keys", key, "--identity-alg", "EdDSA", "--identity-audience", "a", "--identity-issuer", issuer]

    def refused(data, *flags):
        done = run("serve", "--data", data, "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", *provider, *flags,
                   *ledger_flags(data), *gate_flags(data))
        assert done.code in (1, 2) and "identity_issuer" in done.text, done
    refused(tmp_path / "data", "--resp-accounts", accounts("shop"))
    server = own_server("--resp-accounts", accounts("shop"))
    server.stop()
    refused(server.data, "--resp-accounts", accounts("other"))  # it is still whose orders are there
    server.start()
