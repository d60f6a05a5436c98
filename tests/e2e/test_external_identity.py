"""Tokens of the operator's own identity provider: taken when they are right, refused in every other way (P8)."""

import base64
import hashlib
import hmac
import json
import os
import signal
import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from harness import Server, Shop, base64url, eventually, mint_name, problem, unhurried

ISSUER = "https://id.example"
AUDIENCE = "shop"
MAKERS = {
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}
KEYS = {alg: make() for alg, make in MAKERS.items()}
STRANGERS = {alg: make() for alg, make in MAKERS.items()}


def pem(key):
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def number(value, size=None):
    return base64url(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def jwk(key, kid):
    public = key.public_key()
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = public.public_numbers()
        return {"kty": "RSA", "kid": kid, "use": "sig", "n": number(numbers.n), "e": number(numbers.e)}
    if isinstance(key, ec.EllipticCurvePrivateKey):
        numbers = public.public_numbers()
        return {"kty": "EC", "crv": "P-256", "kid": kid, "x": number(numbers.x, 32), "y": number(numbers.y, 32)}
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": base64url(raw)}


def put(path, content):
    """Whole or not at all, as an operator should."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    os.replace(fresh, path)


def claims_of(subject, **changes):
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": now, "nbf": now, "exp": now + 600, **changes}
    return {name: value for name, value in claims.items() if value is not None}


def mint(subject, alg="ES256", key=None, kid="k1", **changes):
    headers = {"kid": kid} if kid else {}
    return jwt.encode(claims_of(subject, **changes), key or KEYS[alg], alg, headers=headers)


def provider_of(own, alg, keys, *flags):
    """A server that knows the provider."""
    server = own(start=False)
    path = server.folder / "provider"
    put(path, keys)
    server.flags += ["--identity-keys", str(path), "--identity-alg", alg, "--identity-issuer", ISSUER, "--identity-audience", AUDIENCE,
                     *flags]
    server.start()
    server.provider = path
    return server


@pytest.fixture(scope="module")
def server():
    shared = Server()
    path = shared.folder / "provider"
    put(path, {"keys": [jwk(KEYS["RS256"], "r1"), jwk(KEYS["ES256"], "k1"), {"kty": "oct", "k": "c2VjcmV0", "kid": "o1"}]})
    shared.flags += ["--identity-keys", str(path), "--identity-alg", "ES256", "--identity-issuer", ISSUER, "--identity-audience", AUDIENCE,
                     "--identity-role-claim", "realm_access.roles", "--identity-roles", "shop-staff=seller,shop-owners=admin",
                     "--identity-leeway-s", "2"]
    shared.start()
    yield shared
    shared.close()


@pytest.mark.parametrize("form", ["pem", "jwks"])
@pytest.mark.parametrize("alg", MAKERS)
def test_a_buyer_of_the_provider_grabs_as_issuer_and_subject(own_server, alg, form):
    server = provider_of(own_server, alg, pem(KEYS[alg]) if form == "pem" else {"keys": [jwk(KEYS[alg], "k1")]})
    shop = Shop(server)
    sale = shop.sale(stock=3)["id"]
    token = mint("ann", alg)
    order = shop.win(sale, token=token)
    assert order["buyer"] == f"{ISSUER}:ann"
    problem(shop.grab(sale, token=token), 409)
    problem(shop.grab(sale, token=mint("ann", alg, exp=int(time.time()) + 601)), 409)
    assert shop.client.get(f"/v1/orders/{order['no']}", token).status == 200
    problem(shop.client.get(f"/v1/orders/{order['no']}", mint("bob", alg)), 404)
    # Someone of the same name here is someone else.
    assert shop.win(sale, "ann")["buyer"] == "ann"
    problem(shop.grab(sale, token=mint("eve", alg, STRANGERS[alg])), 401)
    for other in MAKERS:
        if other != alg:
            problem(shop.grab(sale, token=mint("eve", other)), 401)
    assert shop.counts(sale) == (3, 1, 0, 2)
    assert shop.listed("/v1/orders", token) == [order]
    shop.close()


def raw(header, claims, signature=b""):
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, claims)]
    return ".".join([*map(base64url, parts), base64url(signature)])


def hmac_swap(alg):
    """The oldest trick: the public key as an HMAC secret."""
    header = base64url(json.dumps({"alg": alg, "typ": "JWT", "kid": "k1"}).encode())
    text = f"{header}.{base64url(json.dumps(claims_of('mallory')).encode())}"
    return text + "." + base64url(hmac.new(pem(KEYS["ES256"]), text.encode(), hashlib.sha256).digest())


def tampered():
    low, high = mint("mallory"), mint("mallory", realm_access={"roles": ["shop-owners"]})
    return ".".join([*high.split(".")[:2], low.split(".")[2]])


def signed_raw(header, claims):
    """Signed well, whatever it says."""
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, claims)]
    text = ".".join(map(base64url, parts))
    signature = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256).sign(text.encode(), KEYS["ES256"])
    return text + "." + base64url(signature)


def doubled(name, value):
    text = json.dumps(claims_of("mallory"))
    return signed_raw({"alg": "ES256", "kid": "k1"}, f'{text[:-1]}, "{name}": {json.dumps(value)}}}'.encode())


HEADER = {"alg": "ES256", "typ": "JWT", "kid": "k1"}
TABLE = {
    "alg none": lambda: raw({**HEADER, "alg": "none"}, claims_of("mallory")),
    "alg none, signed": lambda: signed_raw({**HEADER, "alg": "none"}, claims_of("mallory")),
    "alg HS256 by the public key": lambda: hmac_swap("HS256"),
    "alg ES256 by an HMAC": lambda: hmac_swap("ES256"),
    "alg RS256, its own key": lambda: mint("mallory", "RS256", kid="r1"),
    "alg RS256 with the kid of the EC key": lambda: mint("mallory", "RS256"),
    "alg EdDSA": lambda: mint("mallory", "EdDSA"),
    "alg ES384": lambda: signed_raw({**HEADER, "alg": "ES384"}, claims_of("mallory")),
    "alg twice": lambda: signed_raw(b'{"alg":"none","alg":"ES256","kid":"k1"}', claims_of("mallory")),
    "kid of a skipped key": lambda: mint("mallory", kid="o1"),
    "kid unknown": lambda: mint("mallory", kid="k2"),
    "crit": lambda: signed_raw({**HEADER, "crit": ["exp"]}, claims_of("mallory")),
    "a stranger's signature": lambda: mint("mallory", key=STRANGERS["ES256"]),
    "signature of another token": tampered,
    "signature stripped": lambda: mint("mallory").rsplit(".", 1)[0] + ".",
    "signature cut": lambda: mint("mallory")[:-4],
    "signature longer": lambda: mint("mallory") + "AAAA",
    "exp missing": lambda: mint("mallory", exp=None),
    "exp past": lambda: mint("mallory", exp=int(time.time()) - 10),
    "exp twice": lambda: doubled("exp", int(time.time()) + 9999),
    "exp as text": lambda: signed_raw(HEADER, claims_of("mallory", exp="9999999999")),
    "nbf ahead": lambda: mint("mallory", nbf=int(time.time()) + 60),
    "iss another": lambda: mint("mallory", iss="https://evil.example"),
    "iss ours": lambda: mint("mallory", iss="stampede", aud="stampede"),
    "iss missing": lambda: mint("mallory", iss=None),
    "aud another": lambda: mint("mallory", aud="billing"),
    "aud missing": lambda: mint("mallory", aud=None),
    "aud list without us": lambda: mint("mallory", aud=["billing", "mail"]),
    "sub missing": lambda: mint(None),
    "sub empty": lambda: mint(""),
    "sub twice": lambda: doubled("sub", "root"),
    "sub a number": lambda: signed_raw(HEADER, claims_of(7)),
    "name of 65 bytes": lambda: mint("m" * (64 - len(ISSUER))),
    "sub with a line break": lambda: mint("a\nb"),
    "over 4 KB": lambda: mint("mallory", pad="p" * 3000),
    "6 KB": lambda: mint("mallory", pad="p" * 4500),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_token_that_is_not_right_is_refused(shop, name):
    sale = shop.sale(stock=5)["id"]
    problem(shop.grab(sale, token=TABLE[name]()), (401, 431))
    assert shop.counts(sale) == (5, 5, 0, 0)


def test_good_tokens_of_many_shapes_are_taken(shop):
    """The table above would prove nothing if none were."""
    for token in (mint("ann"), mint("ann", aud=["billing", AUDIENCE]), mint("ann", nbf=None, iat=None), mint("m" * (63 - len(ISSUER))),
                  mint("ann", exp=time.time() + 60.5, nbf=time.time() - 1.5, iat=time.time() - 0.5), mint("ann", exp=10**12), mint("ann", exp=2**64),
                  mint("ann", pad="p" * 2500), mint("安娜"), signed_raw(HEADER, claims_of("ann"))):
        for _ in range(2):
            assert shop.client.get("/v1/orders", token).status == 200


def test_roles_come_from_the_claim_and_only_by_the_table(shop):
    def role_token(*roles):
        return mint("rose", realm_access={"roles": [*roles]})
    body = {"stock": 1}
    assert shop.client.post("/v1/sales", {"name": mint_name("sale"), **body}, role_token("x", "shop-staff")).status == 201
    made = shop.client.post("/v1/sales", {"name": mint_name("sale"), **body}, role_token("shop-owners")).json()
    assert made["seller"] == f"{ISSUER}:rose"
    for roles in ((), ("seller",), ("admin",), ("shop-Staff",)):
        problem(shop.client.post("/v1/sales", {"name": mint_name("sale"), **body}, role_token(*roles)), 403)
    problem(shop.client.post("/v1/sales", {"name": mint_name("sale"), **body}, mint("rose", role="seller", roles=["shop-staff"])), 403)
    problem(shop.client.post(f"/v1/sales/{shop.sale()['id']}/pause", None, role_token("shop-staff")), (403, 404))


def test_logging_out_ends_the_token_also_after_a_restart(own_server):
    server = provider_of(own_server, "ES256", pem(KEYS["ES256"]))
    shop = Shop(server)
    token, other = mint("ann"), mint("ann", exp=int(time.time()) + 700)
    assert shop.client.get("/v1/orders", token).status == 200
    assert shop.client.post("/v1/logout", None, token).status == 204
    # Anybody can make the other good signature of ES256 out of one; it is the same token.
    text, signature = token.rsplit(".", 1)
    both = base64.urlsafe_b64decode(signature + "==")
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    turned = text + "." + base64url(both[:32] + (order - int.from_bytes(both[32:], "big")).to_bytes(32, "big"))
    assert jwt.decode(turned, KEYS["ES256"].public_key(), ["ES256"], audience=AUDIENCE)["sub"] == "ann"
    for restarted in (False, True):
        if restarted:
            server.restart(kill=True)
            shop.client.close()
        problem(shop.client.get("/v1/orders", token), 401)
        problem(shop.client.get("/v1/orders", turned), 401)
        assert shop.client.get("/v1/orders", other).status == 200
    shop.close()


@pytest.mark.parametrize("told", [False, True], ids=["by itself", "by SIGHUP"])
def test_keys_rotate_by_replacing_the_file(own_server, told):
    server = provider_of(own_server, "RS256", {"keys": [jwk(KEYS["RS256"], "old")]})
    shop = Shop(server)
    old, new = mint("ann", "RS256", kid="old"), mint("ann", "RS256", STRANGERS["RS256"], "new")

    def status(token):
        return shop.client.get("/v1/orders", token).status

    def replace(content):
        put(server.provider, content)
        if told:
            os.kill(server.pid, signal.SIGHUP)

    assert (status(old), status(new)) == (200, 401)
    replace({"keys": [jwk(KEYS["RS256"], "old"), jwk(STRANGERS["RS256"], "new")]})
    eventually(lambda: status(new) == 200)
    assert status(old) == 200
    whole = json.dumps({"keys": [jwk(STRANGERS["RS256"], "new")]}).encode()
    replace(whole[:len(whole) // 2])
    eventually(lambda: "cannot be used" in server.log())
    assert (status(old), status(new)) == (200, 200), "a file half written changes nothing"
    replace(whole)
    eventually(lambda: status(old) == 401)
    assert status(new) == 200
    shop.close()


def test_a_token_ends_on_its_second_also_when_it_is_known(shop):
    def taken(span_s):
        token = mint("ann", exp=int(time.time()) - 1 + span_s)  # and 2 s of leeway
        assert shop.client.get("/v1/orders", token).status == 200
        return token
    token = unhurried(taken)
    eventually(lambda: shop.client.get("/v1/orders", token).status != 200)
    body = problem(shop.client.get("/v1/orders", token), 401)
    assert body["code"] == "TOKEN_EXPIRED"


@pytest.mark.parametrize("flags, said", [
    (["--identity-issuer", ISSUER], "together"),
    (["--identity-keys", "FILE", "--identity-issuer", ISSUER], "together"),
    (["--identity-keys", "FILE", "--identity-issuer", ISSUER, "--identity-audience", "a", "--identity-alg", "HS256"], "RS256 ES256 EdDSA"),
    (["--identity-keys", "/nonexistent", "--identity-issuer", ISSUER, "--identity-audience", "a"], "cannot be used"),
    (["--identity-keys", "FILE", "--identity-issuer", ISSUER, "--identity-audience", "a", "--identity-alg", "EdDSA"], "no key for EdDSA"),
    (["--identity-keys", "FILE", "--identity-issuer", "i" * 63, "--identity-audience", "a"], "too long"),
    (["--identity-keys", "FILE", "--identity-issuer", ISSUER, "--identity-audience", "a", "--identity-roles", "staff"], "identity_roles"),
], ids=["issuer alone", "no audience", "symmetric", "no file", "no key", "long issuer", "roles"])
def test_a_provider_that_cannot_work_is_said_at_the_start(own_server, tmp_path, flags, said):
    path = tmp_path / "keys.pem"
    path.write_bytes(pem(KEYS["RS256"]))
    server = own_server(*[str(path) if flag == "FILE" else flag for flag in flags], start=False)
    server.start_unready()
    assert server.wait(20) in (1, 2)
    assert said in server.log()
