"""Files that options name: what the server cannot use it refuses at the start, in a sentence that says which file and why."""

import subprocess

import pytest
from harness import Shop, eventually, mint_name
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
