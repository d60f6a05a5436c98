"""Audit and export of a data folder that can only be read: a snapshot, a file system that is read-only, a folder of somebody else."""

import os
import pathlib
import shutil
import tempfile

import pytest
from harness import BINARY, Shop, run

pytestmark = [pytest.mark.local, pytest.mark.sqlite]
MOUNTED = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


@pytest.fixture
def sold(own_server):
    """The folder of a server that has sold and stopped, without its lock, where others can come to it."""
    server = own_server()
    shop = Shop(server)
    shop.win(shop.sale(stock=3)["id"], "ann")
    shop.close()
    server.stop()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="stampede-read-only-"))
    folder.chmod(0o755)
    shutil.copytree(server.data, folder / "data?#%41")
    (folder / "data?#%41" / "lock").unlink()
    yield folder / "data?#%41"
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o700)
    shutil.rmtree(folder)


def mounted(data):
    """Words before a command for which the folder is on a file system that is read-only. Who is not root here is root of a namespace."""
    return ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c", MOUNTED, str(data)]


def handed(data):
    """The same for a folder of somebody else, which we may look at."""
    for path in (data, *data.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    if os.geteuid() != 0:
        return []
    # Where the program is nobody else may come to: one beside the folder takes its place.
    program = shutil.copy(BINARY, data.parent / "program")
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", 'shift && exec "$0" "$@"', str(program)]


WAYS = pytest.mark.parametrize("way", [mounted, handed])


@WAYS
@pytest.mark.parametrize("log", ["none", "empty"])
def test_what_can_only_be_read_is_audited_and_exported(sold, way, log):
    if log == "empty":
        (sold / "ledger.db-wal").touch()
    prefix, before = way(sold), sorted(sold.rglob("*"))
    done = run("audit", "--data", sold, prefix=prefix)
    assert done.code == 0 and "all promises hold" in done.out and "1 orders" in done.out and done.err == "", done
    done = run("export", "orders", "--format", "jsonl", "--data", sold, prefix=prefix)
    assert done.code == 0 and done.out.count("\n") == 1 and '"ann"' in done.out and done.err == "", done
    assert sorted(sold.rglob("*")) == before


@WAYS
def test_a_log_that_has_to_be_recovered_is_told_in_one_sentence(sold, way):
    (sold / "ledger.db-wal").write_bytes(b"left by a server that was killed " * 200)
    prefix = way(sold)
    for words in (["audit"], ["export", "orders", "--format", "csv"]):
        done = run(*words, "--data", sold, prefix=prefix)
        assert done.code == 1 and done.err.count("copy the data folder to where it can be written") == 1, done
        assert "PRAGMA" not in done.text and "ledger.db-wal" in done.err, done


@WAYS
def test_repair_says_that_it_cannot_write(sold, way):
    done = run("repair", "--data", sold, prefix=way(sold))
    assert done.code == 1 and ("Read-only file system" in done.err or "Permission denied" in done.err) and done.err.count("\n") == 1, done


def test_an_audit_leaves_no_lock_where_there_was_none(sold):
    before = sorted(sold.rglob("*"))
    assert run("audit", "--data", sold).code == 0
    assert sorted(sold.rglob("*")) == before


@pytest.mark.parametrize("word", ["audit", "repair"])
def test_a_file_is_no_data_folder(tmp_path, word):
    path = tmp_path / "file"
    path.touch()
    done = run(word, "--data", path)
    assert done.code == 1 and f"cannot use the data folder {path}: Not a directory" in done.err, done
