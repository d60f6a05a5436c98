"""Every token of the table in promises.md is refused, on every kind of route (P8)."""

import hashlib
import json
import time

import jwt
import pytest
from harness import ON_REDIS, Shop, base64url, claims_of, eventually, keys_of, mint_name, problem, token_sign, unhurried


def sign(server, claims=None, header=None, **more):
    kid, key = server.signing_key()
    return token_sign(claims_of("mallory", "admin") if claims is None else claims, kid, key, header, **more)


def header_of(server, **changes):
    header = {"alg": "HS256", "typ": "JWT", "kid": server.signing_key()[0], **changes}
    return {name: value for name, value in header.items() if value is not None}


def raw_claims(*pairs):
    """Claims as text, in which a name may stand twice."""
    return ("{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs) + "}").encode()


def pairs_with(name, value, first=None):
    """Good claims with one of them said twice: first as first or as it was, then as value."""
    claims = claims_of("mallory", "admin")
    claims[name] = claims[name] if first is None else first
    return raw_claims(*claims.items(), (name, value))


def unsigned(header, claims=None):
    return ".".join(base64url(json.dumps(part).encode()) for part in (header, claims or claims_of("mallory", "admin"))) + "."


def tampered(server):
    """The claims of one token under the signature of another."""
    low, high = sign(server, claims_of("mallory", "customer")), sign(server)
    return ".".join([*high.split(".")[:2], low.split(".")[2]])


def other_last_letter(token):
    """43 letters carry 258 bits for 256: the last letter has spellings that decode to the same bytes."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]


NOW = int(time.time())
TABLE = {
    "alg none, no signature": lambda s: unsigned(header_of(s, alg="none")),
    "alg None, no signature": lambda s: unsigned(header_of(s, alg="None")),
    "alg NONE, no signature": lambda s: unsigned(header_of(s, alg="NONE")),
    "alg none, signed": lambda s: sign(s, header=header_of(s, alg="none")),
    "alg hs256": lambda s: sign(s, header=header_of(s, alg="hs256")),
    "alg HS384": lambda s: sign(s, header=header_of(s, alg="HS384"), digest=hashlib.sha384),
    "alg HS512": lambda s: sign(s, header=header_of(s, alg="HS512"), digest=hashlib.sha512),
    "alg HS512 over HS256": lambda s: sign(s, header=header_of(s, alg="HS512")),
    "alg RS256 swap": lambda s: sign(s, header=header_of(s, alg="RS256")),
    "alg ES256": lambda s: sign(s, header=header_of(s, alg="ES256")),
    "alg missing": lambda s: sign(s, header=header_of(s, alg=None)),
    "alg twice": lambda s: sign(s, header=b'{"alg":"none","alg":"HS256","typ":"JWT","kid":"%s"}' % s.signing_key()[0].encode()),
    "alg a list": lambda s: sign(s, header=header_of(s, alg=["HS256"])),
    "kid unknown": lambda s: sign(s, header=header_of(s, kid="someone-else")),
    "kid empty": lambda s: sign(s, header=header_of(s, kid="")),
    "kid missing": lambda s: sign(s, header=header_of(s, kid=None)),
    "kid a path": lambda s: sign(s, header=header_of(s, kid="../../../../dev/null")),
    "kid a number": lambda s: sign(s, header=header_of(s, kid=0)),
    "crit": lambda s: sign(s, header=header_of(s, crit=["exp"])),
    "empty key": lambda s: token_sign(claims_of("mallory", "admin"), s.signing_key()[0], b""),
    "zero key": lambda s: token_sign(claims_of("mallory", "admin"), s.signing_key()[0], bytes(32)),
    "key as hex text": lambda s: token_sign(claims_of("mallory", "admin"), s.signing_key()[0], s.signing_key()[1].hex().encode()),
    "signature stripped": lambda s: sign(s).rsplit(".", 1)[0] + ".",
    "signature and dot stripped": lambda s: sign(s).rsplit(".", 1)[0],
    "signature cut short": lambda s: sign(s)[:-4],
    "signature longer": lambda s: sign(s) + "AAAA",
    "signature of another token": tampered,
    "signature padded": lambda s: sign(s) + "=",
    "signature spelled otherwise": lambda s: other_last_letter(sign(s)),
    "four parts": lambda s: sign(s) + ".AAAA",
    "one flipped bit": lambda s: sign(s)[:-10] + chr(ord(sign(s)[-10]) ^ 1) + sign(s)[-9:],
    "sub twice": lambda s: sign(s, pairs_with("sub", "root")),
    "role twice": lambda s: sign(s, pairs_with("role", "admin", "customer")),
    "exp twice": lambda s: sign(s, pairs_with("exp", NOW + 99999, NOW - 5)),
    "claims are a list": lambda s: sign(s, b"[]"),
    "claims are empty": lambda s: sign(s, b""),
    "claims are not JSON": lambda s: sign(s, b"{"),
    "claims and more": lambda s: sign(s, json.dumps(claims_of("mallory", "admin")).encode() + b"{}"),
    "claims not UTF-8": lambda s: sign(s, raw_claims(*claims_of("mallory@", "admin").items()).replace(b"@", b"\xff")),
    "expired": lambda s: sign(s, claims_of("mallory", "admin", iat=NOW - 90, nbf=NOW - 90, exp=NOW - 30)),
    "expired long ago": lambda s: sign(s, claims_of("mallory", "admin", iat=1, nbf=1, exp=2)),
    "exp zero": lambda s: sign(s, claims_of("mallory", "admin", exp=0)),
    "exp negative": lambda s: sign(s, claims_of("mallory", "admin", exp=-1)),
    "exp missing": lambda s: sign(s, claims_of("mallory", "admin", exp=None)),
    "exp as text": lambda s: sign(s, claims_of("mallory", "admin", exp=str(NOW + 999))),
    "exp beyond 64 bits": lambda s: sign(s, claims_of("mallory", "admin", exp=2 ** 64 + NOW)),
    "nbf in the future": lambda s: sign(s, claims_of("mallory", "admin", nbf=NOW + 3000)),
    "nbf as text": lambda s: sign(s, claims_of("mallory", "admin", nbf="0")),
    "issuer another": lambda s: sign(s, claims_of("mallory", "admin", iss="elsewhere")),
    "issuer longer": lambda s: sign(s, claims_of("mallory", "admin", iss="stampede\0")),
    "issuer missing": lambda s: sign(s, claims_of("mallory", "admin", iss=None)),
    "audience another": lambda s: sign(s, claims_of("mallory", "admin", aud="elsewhere")),
    "audience missing": lambda s: sign(s, claims_of("mallory", "admin", aud=None)),
    "subject missing": lambda s: sign(s, claims_of(None, "admin")),
    "subject empty": lambda s: sign(s, claims_of("", "admin")),
    "subject of 65 bytes": lambda s: sign(s, claims_of("m" * 65, "admin")),
    "subject a number": lambda s: sign(s, claims_of(5, "admin")),
    "subject with NUL": lambda s: sign(s, claims_of("mallory\0x", "admin")),
    "role missing": lambda s: sign(s, claims_of("mallory", None)),
    "role unknown": lambda s: sign(s, claims_of("mallory", "root")),
    "role empty": lambda s: sign(s, claims_of("mallory", "")),
    "role longer": lambda s: sign(s, claims_of("mallory", "admin" + "n" * 30)),
    "jti missing": lambda s: sign(s, claims_of("mallory", "admin", jti=None)),
    "jti too short": lambda s: sign(s, claims_of("mallory", "admin", jti="12")),
    "jti not hex": lambda s: sign(s, claims_of("mallory", "admin", jti="g" * 16)),
    "just over 1 KB": lambda s: sign(s, claims_of("mallory", "admin", pad="p" * 750)),
    "8 KB": lambda s: sign(s, claims_of("mallory", "admin", pad="p" * 5400)),
    "empty": lambda s: "",
    "dots": lambda s: "..",
    "not base64": lambda s: "*.*.*",
}


@pytest.mark.parametrize("name", TABLE)
def test_a_token_that_is_not_ours_is_refused(shop, server, name):
    """P8: refused with 401 (or, when it makes the head too large, 431) where a login is needed."""
    token = TABLE[name](server)
    answer = shop.client.get("/v1/orders", token)
    expected = (401, 431) if len(token) > 7000 else 401
    problem(answer, expected)


def test_a_refused_token_takes_nothing(shop, server):
    """P1 and P8: none of the table grabs a piece or makes a sale."""
    sale = shop.sale(stock=100)["id"]
    for name, make in TABLE.items():
        token = make(server)
        assert shop.client.post(f"/v1/sales/{sale}/grabs", None, token).status in (401, 431), name
        assert shop.client.post("/v1/sales", {"name": mint_name("forged"), "stock": 1}, token).status in (401, 431), name
    assert shop.counts(sale) == (100, 100, 0, 0)


@pytest.mark.parametrize("value", ["{}", "Basic {}", "Bearer", "Bearer ", "Bearer\t{}", "Bearer {} {}", "Bearer {},Bearer {}", "Token {}",
                                   "Bearer {}\x80", "Bearer \"{}\""])
def test_an_authorization_of_another_shape_is_refused(shop, server, value):
    good = server.token(mint_name("buyer"))
    answer = shop.client.get("/v1/orders", headers={"Authorization": value.format(good, good)})
    problem(answer, (400, 401))


def test_two_authorizations_are_refused(shop, server):
    """P8: two readers of a repeated header might take different ones."""
    with server.connect() as client:
        lines = "".join(f"Authorization: Bearer {server.token(name, 'admin')}\r\n" for name in ("ann", "bob"))
        client.send(f"GET /v1/orders HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
        problem(client.receive(), (400, 401))


@pytest.mark.parametrize("claims", [{}, {"pad": "p" * 100}], ids=["plain", "one more claim"])
def test_a_good_token_is_taken(shop, server, claims):
    """The table above would prove nothing if the harness could not make a good one."""
    assert shop.client.get("/v1/orders", server.token(mint_name("buyer"), **claims)).status == 200


def test_claims_in_another_order_are_taken(shop, server):
    """Both ways of reading a token, the short one and the whole one, come to the same."""
    claims = dict(reversed(claims_of(mint_name("buyer")).items()))
    header = dict(reversed(header_of(server).items()))
    assert shop.client.get("/v1/orders", sign(server, claims, header)).status == 200


def test_an_expired_token_says_so(shop, server):
    body = problem(shop.client.get("/v1/orders", TABLE["expired"](server)), 401)
    assert "xpired" in body["title"] + body["detail"] or body["code"] == "TOKEN_EXPIRED"


def test_a_token_ends_on_its_second(shop, server):
    def taken(span_s):
        token = server.token(mint_name("buyer"), exp=int(time.time()) + 1 + span_s)
        assert shop.client.get("/v1/orders", token).status == 200
        return token
    token = unhurried(taken)
    eventually(lambda: shop.client.get("/v1/orders", token).status != 200)
    problem(shop.client.get("/v1/orders", token), 401)
    apart_s = 0.05 if ON_REDIS else 0  # a node goes by the clock of Redis as it has heard it
    assert time.time() + apart_s >= int(jwt.decode(token, options={"verify_signature": False})["exp"]), "before its time"


def test_a_ring_of_keys_signs_with_the_first_and_knows_the_others(own_server):
    """P8: keys are rotated by a new first line; a line removed ends its tokens."""
    server = own_server()
    shop = Shop(server)
    old = server.token("ann")
    server.stop()
    path = server.data / "keys"
    kid, secret = keys_of(server.data)[0]
    path.write_text(f"newer {'5c' * 32}\n{kid} {secret}\n")
    server.key = None
    server.start()
    shop.client.close()
    new = server.token("ann")
    assert shop.client.get("/v1/orders", old).status == 200
    assert shop.client.get("/v1/orders", new).status == 200
    shop.client.post("/v1/users", {"username": "ann", "password": "long enough", "role": "customer"})
    token = shop.client.post("/v1/login", {"username": "ann", "password": "long enough"}).json()["token"]
    assert jwt.get_unverified_header(token)["kid"] == "newer"
    server.stop()
    path.write_text(f"newer {'5c' * 32}\n")
    server.start()
    shop.client.close()
    problem(shop.client.get("/v1/orders", old), 401)
    assert shop.client.get("/v1/orders", new).status == 200
