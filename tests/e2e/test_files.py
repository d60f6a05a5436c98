"""Files that options name: what the server cannot use it refuses at the start, in a sentence that says which file and why, and `config check` says it before."""

import subprocess

import pytest
from harness import BINARY, Shop, environment, eventually, mint_name
from receiver import QUICK, Receiver, hook, shown
from test_startup import refuses


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    folder = tmp_path_factory.mktemp("authority")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder / "key.pem", "-out", folder / "cert.pem",
                    "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True, timeout=60)
    return (folder / "cert.pem").read_text()


RUBBISH = "-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("content,why", [(None, "No such file or directory"), ("", "has no PEM certificate"), ("rubbish", "has no PEM certificate"), (RUBBISH, "")],
                         ids=["missing", "empty", "words", "broken"])
def test_authorities_for_webhooks_that_cannot_be_used_are_an_error(own_server, tmp_path, content, why):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    refuses(own_server("--webhook-ca", path, start=False), 1, f"cannot use the authorities {path}", why, "webhook_ca must be a PEM file")


def test_sellers_are_not_told_of_files_of_the_server(own_server, tmp_path, authority):
    """Authorities that are lost while the server runs are for its operator to mend."""
    path = tmp_path / "ca.pem"
    path.write_text(authority)
    server = own_server(*QUICK, "--webhook-ca", path)
    path.unlink()
    shop = Shop(server)
    with Receiver() as receiver:
        hook(shop, receiver.url(host="localhost").replace("http://", "https://"))
        shop.win(shop.sale()["id"], mint_name("ann"))
        said = eventually(lambda: shown(shop)["last_failure"])
    assert said == "the shop could not send it; its operator has been told"
    assert f"webhooks are not sent: error setting certificate file: {path}" in server.log()
    shop.close()


KEYS = "k1 " + "ab" * 32 + "\n"
SECRETS = "whsec_" + "QUJD" * 8 + "\n"
ACCOUNTS = "shop 0123456789abcdef\n"
PROVIDER = "identity_issuer = idp\nidentity_audience = shop\n"

# Options and where they point, under {0}; what is there and its mode, or None; what is said of it.
REFUSED = {
    "accounts missing": ("resp_accounts = {0}/file", None, 0, ("resp_accounts", "No such file or directory")),
    "accounts malformed": ("resp_accounts = {0}/file", "shop short\n", 0o600, ("resp_accounts", "line 1")),
    "accounts open to all": ("resp_accounts = {0}/file", ACCOUNTS, 0o644, ("resp_accounts", "mode 0644")),
    "keys malformed": ("keys = {0}/file", "no keys\n", 0o600, ("keys", "cannot be used")),
    "keys open to all": ("keys = {0}/file", KEYS, 0o644, ("keys", "mode 0644")),
    "keys in no folder": ("keys = {0}/none/file", None, 0, ("keys", "/none", "No such file or directory")),
    "payment keys malformed": ("payment_keys = {0}/file", "whsec_\n", 0o600, ("payment_keys", "line 1")),
    "payment keys open to all": ("payment_keys = {0}/file", SECRETS, 0o644, ("payment_keys", "mode 0644")),
    "payment keys in no folder": ("payment_keys = {0}/none/file", None, 0, ("payment_keys", "/none", "No such file or directory")),
    "certificate missing": ("tls_cert = {0}/none\ntls_key = {0}/file", "x", 0o600, ("tls_cert", "No such file or directory")),
    "certificate without key": ("tls_cert = {0}/cert\ntls_key = {0}/file", "x", 0o600, ("tls_key", "has no PEM key")),
    "key open to all": ("tls_cert = {0}/cert\ntls_key = {0}/file", "x", 0o644, ("tls_key", "mode 0644")),
    "provider without keys": (PROVIDER + "identity_keys = {0}/file", None, 0, ("identity_keys", "No such file or directory")),
    "provider with an empty file": (PROVIDER + "identity_keys = {0}/file", "", 0o600, ("identity_keys", "cannot be used")),
    "provider without a key for its algorithm": (PROVIDER + "identity_alg = RS256\nidentity_keys = {0}/public", None, 0, ("identity_keys", "cannot be used")),
    "blocks in no folder": ("blocks = {0}/none/blocks", None, 0, ("blocks", "No such file or directory")),
    "authorities missing": ("webhook_ca = {0}/file", None, 0, ("webhook_ca", "No such file or directory")),
    "authorities malformed": ("webhook_ca = {0}/file", "rubbish", 0o644, ("webhook_ca", "has no PEM certificate")),
    "data in no folder": ("data = {0}/none/data", None, 0, ("data", "No such file or directory")),
}


def tried(*arguments):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, timeout=60, env=environment())
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("name", REFUSED)
def test_config_check_says_of_files_what_serve_would_refuse(tmp_path, authority, name):
    lines, content, mode, words = REFUSED[name]
    (tmp_path / "cert").write_text(authority)
    public = subprocess.run(["openssl", "x509", "-in", tmp_path / "cert", "-noout", "-pubkey"], check=True, capture_output=True, timeout=60).stdout
    (tmp_path / "public").write_bytes(public)
    if content is not None:
        (tmp_path / "file").write_text(content)
        (tmp_path / "file").chmod(mode)
    conf = tmp_path / "conf"
    conf.write_text("http = 127.0.0.1:0\nresp = off\n" + ("" if "data =" in lines else f"data = {tmp_path}/data\n") + lines.format(tmp_path) + "\n")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = tried("config", "check", conf)
    assert code == 1 and out.startswith(f"{conf}: ") and out.count("\n") == 1 and err == "", (out, err)
    for word in words:
        assert word in out, out
    assert sorted(tmp_path.rglob("*")) == before, "a look made something"
    code, out, err = tried("serve", "--config", conf)
    assert code == 1 and words[-1] in err, (code, out, err)


def test_config_check_likes_files_that_are_good_or_will_be_made(tmp_path, authority):
    for name, content in (("accounts", ACCOUNTS), ("keys", KEYS), ("secrets", SECRETS), ("blocks", "192.0.2.1\n"), ("ca", authority)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o600)
    conf = tmp_path / "conf"
    good = (f"data = {tmp_path}/data\n", f"keys = {tmp_path}/to-come\npayment_keys = {tmp_path}/to-come-too\nblocks = {tmp_path}/none-yet\n",
            f"resp_accounts = {tmp_path}/accounts\nkeys = {tmp_path}/keys\npayment_keys = {tmp_path}/secrets\nblocks = {tmp_path}/blocks\nwebhook_ca = {tmp_path}/ca\n")
    for lines in good:
        conf.write_text(lines)
        before = sorted(tmp_path.rglob("*"))
        assert tried("config", "check", conf) == (0, f"{conf}: fine\n", ""), lines
        assert sorted(tmp_path.rglob("*")) == before, "a look made something"


def test_config_check_tells_all_files_at_once(tmp_path):
    conf = tmp_path / "conf"
    conf.write_text(f"data = {tmp_path}/data\nresp_accounts = {tmp_path}/one\nwebhook_ca = {tmp_path}/two\n")
    code, out, _ = tried("config", "check", conf)
    assert code == 1 and [line.split(": ")[1] for line in out.splitlines()] == ["resp_accounts", "webhook_ca"], out
