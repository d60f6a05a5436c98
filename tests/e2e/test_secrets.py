"""Where secrets come from when somebody hands them to the server, and the question of containers whether it is well."""

import os
import signal
import subprocess

import pytest
from harness import BINARY, PATIENCE_S, Shop, environment, eventually, keys_of, run
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


@pytest.fixture
def tls(tmp_path):
    """Flags of a certificate and its key, and the two files."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=shop.example"], check=True, capture_output=True, timeout=60)
    key.chmod(0o600)
    return ["--tls-cert", str(cert), "--tls-key", str(key)], cert, key


def test_a_key_of_tls_that_others_may_read_is_refused(own_server, tls):
    flags, _, key = tls
    for mode in (0o644, 0o640, 0o604):
        key.chmod(mode)
        refuses(own_server(*flags, start=False), 1, key, f"mode {mode:04o}", "chmod 600")
    key.chmod(0o600)
    server = own_server(*flags)
    key.chmod(0o644)
    os.kill(server.pid, signal.SIGHUP)
    eventually(lambda: "stay as they were" in server.log())
    assert f"{key} has mode 0644" in server.log()
    assert run("health", "--http", f"127.0.0.1:{server.port}", *flags).out == "alive\n"


def test_what_is_wrong_with_files_of_tls_is_said_in_words(own_server, tls):
    flags, cert, key = tls
    good = {path: path.read_bytes() for path in (cert, key)}
    other = subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], check=True, capture_output=True, timeout=60).stdout
    encrypted = subprocess.run(["openssl", "pkey", "-in", key, "-aes128", "-passout", "pass:word"], check=True, capture_output=True, timeout=60).stdout
    for path, content, words in (
            (cert, None, ["No such file or directory"]), (cert, b"", ["has no PEM certificate"]), (cert, b"rubbish", ["has no PEM certificate"]),
            (key, None, ["No such file or directory"]), (key, b"", ["has no PEM key"]), (key, good[cert], ["has no PEM key"]), (key, encrypted, ["passphrase"]),
            (key, other, ["key values mismatch"])):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
            path.chmod(0o600)
        text = refuses(own_server(*flags, start=False), 1, path, *words)
        assert "system lib" not in text
        path.write_bytes(good[path])
        path.chmod(0o600)


@pytest.mark.parametrize("option", ["keys", "payment-keys", "resp-accounts", "tls-key", "tls-cert"])
def test_a_pipe_is_no_file_of_secrets_and_nobody_waits_for_it(own_server, tls, tmp_path, option):
    flags = dict(zip(tls[0][::2], tls[0][1::2])) if option.startswith("tls") else {}
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    flags[f"--{option}"] = str(pipe)
    server = own_server(*[word for pair in flags.items() for word in pair], start=False)
    server.start_unready()
    assert server.wait(PATIENCE_S) == 1
    assert str(pipe) in server.log() and "is not a file" in server.log()


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


def test_health_of_a_server_with_tls(own_server, tls):
    flags, _, _ = tls
    server = own_server(*flags)
    assert run("health", "--http", f"127.0.0.1:{server.port}", *flags).out == "alive\n"
    assert run("health", "--http", f"127.0.0.1:{server.port}").code == 1


@pytest.mark.parametrize("words", [["never"], ["ready", "now"], ["--http", "nowhere"]])
def test_health_asked_wrongly_is_a_mistake(words):
    done = run("health", *words)
    assert done.code == 2 and done.err.count("\n") == 1, done
