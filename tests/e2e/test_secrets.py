"""Where secrets come from when somebody hands them to the server, and the question of containers whether it is well."""

import subprocess

import pytest
from harness import BINARY, Shop, environment, keys_of, run
from test_startup import refuses

KEYS = "k1 " + "ab" * 32 + "\n"


@pytest.fixture
def credentials(tmp_path):
    """A folder as systemd makes one for a service."""
    folder = tmp_path / "credentials"
    folder.mkdir(mode=0o700)
    for name, text in (("keys", KEYS), ("payment_keys", "whsec_" + "QUJD" * 8 + "\n"), ("resp", "shop 0123456789abcdef\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o400)
    return folder


def test_secrets_are_taken_from_the_credentials_directory(own_server, credentials):
    server = own_server("--keys", "keys", "--payment-keys", "payment_keys", "--resp-accounts", "resp", env={"CREDENTIALS_DIRECTORY": str(credentials)})
    assert not (server.data / "keys").exists() and not (server.data / "payment_keys").exists()
    kid, text = keys_of(credentials)[0]
    server.key = kid, bytes.fromhex(text)
    shop = Shop(server)
    assert shop.win(shop.sale()["id"], "ann")["state"] == "paid"
    shop.close()


def test_the_same_name_without_a_credentials_directory_is_of_the_working_folder(own_server, credentials):
    refuses(own_server("--payment-keys", "no-such-folder/keys", start=False), 1, "no-such-folder/keys")


def test_a_credential_that_is_missing_or_open_to_all_is_told_with_its_path(own_server, credentials):
    env = {"CREDENTIALS_DIRECTORY": str(credentials)}
    refuses(own_server("--resp-accounts", "other", start=False, env=env), 1, credentials / "other")
    (credentials / "resp").chmod(0o444)
    refuses(own_server("--resp-accounts", "resp", start=False, env=env), 1, credentials / "resp", "mode 0444")


def test_health_asks_the_server_of_these_options(own_server, tmp_path):
    server = own_server()
    at = f"127.0.0.1:{server.port}"
    for words, said in (([], "alive\n"), (["ready"], "ready\n")):
        done = run("health", *words, "--http", at)
        assert (done.code, done.out, done.err) == (0, said, "")
    # As one who listens everywhere has it in the file.
    conf = tmp_path / "conf"
    conf.write_text(f"http = 0.0.0.0:{server.port}\n")
    assert run("health", "--config", conf).out == "alive\n"
    # A proxy of the environment has no say in what this machine asks itself.
    done = subprocess.run([BINARY, "health", "--http", at], env=environment({"http_proxy": "http://127.0.0.1:1"}), capture_output=True, timeout=30)
    assert done.returncode == 0
    server.stop()
    for words in ([], ["ready"]):
        done = run("health", *words, "--http", at)
        assert done.code == 1 and at in done.out and done.out.count("\n") == 1, done


def test_health_of_a_server_with_tls(own_server, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=shop.example"], check=True, capture_output=True, timeout=60)
    server = own_server("--tls-cert", cert, "--tls-key", key)
    tls = ["--tls-cert", str(cert), "--tls-key", str(key)]
    assert run("health", "--http", f"127.0.0.1:{server.port}", *tls).out == "alive\n"
    assert run("health", "--http", f"127.0.0.1:{server.port}").code == 1


@pytest.mark.parametrize("words", [["never"], ["ready", "now"], ["--http", "nowhere"]])
def test_health_asked_wrongly_is_a_mistake(words):
    done = run("health", *words)
    assert done.code == 2 and done.err.count("\n") == 1, done
