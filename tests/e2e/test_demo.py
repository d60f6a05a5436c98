"""stampede demo: one command from nothing to the proof, and nothing of it left behind."""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import urllib.request

import pytest
from harness import BINARY, end_with_parent, environment, eventually, run
from ledgers import Ledger

SHORT = ["--open-in", "1", "--seconds", "2", "--buyers", "400", "--bots", "3", "--stock", "60"]


class Demo:
    """One that runs, and what it has said so far."""

    def __init__(self, *flags, env=None):
        # A session of its own, so that Ctrl-C can be sent as a terminal does: to the whole group.
        self.process = subprocess.Popen([BINARY, "demo", *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        env=environment(env), start_new_session=True, preexec_fn=end_with_parent)
        self.out = b""
        os.set_blocking(self.process.stdout.fileno(), False)
        self.base = self.waits_for(r"look +(http://\S+)/")
        self.folder = pathlib.Path(self.waits_for(r"data +(\S+), removed"))
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.server = int(children[0])

    def text(self):
        with contextlib.suppress(BlockingIOError):
            self.out += self.process.stdout.read() or b""
        return self.out.decode()

    def waits_for(self, pattern):
        return eventually(lambda: re.search(pattern, self.text()), 30).group(1)

    def press_control_c(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self):
        """Exit code; and its server has ended, too."""
        code = self.process.wait(40)
        eventually(lambda: not is_running(self.server))
        self.text()
        return code

    def answers(self):
        try:
            with urllib.request.urlopen(self.base + "/healthz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def is_running(pid):
    """A zombie that its new parent has not seen yet is no running process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def demo():
    made = []

    def make(*flags, **more):
        made.append(Demo(*flags, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_the_demo_ends_with_the_proof_whatever_the_environment_says():
    elsewhere = {"STAMPEDE_LEDGER": "mysql://nobody@127.0.0.1:1/none", "STAMPEDE_DATA": "/nowhere", "STAMPEDE_LIMITS": "nonsense", "STAMPEDE_PAGES": "off"}
    done = run("demo", *SHORT, env=elsewhere)
    assert done.code == 0, done.text
    assert "\nthe numbers add up\n" in done.out and "audit: all promises hold" in done.out and "WRONG" not in done.out

    sale = re.search(r"offered (\d+) = sold (\d+) \+ held (\d+) \+ available (\d+)", done.out)
    offered, sold, held, available = map(int, sale.groups())
    assert offered == 60 == sold + held + available and sold > 0
    told, filed = map(int, re.search(r"(\d+) wins were told, (\d+) of them are in the ledger", done.out).groups())
    assert told == filed >= 60, done.out
    orders = map(int, re.search(r"(\d+) orders: (\d+) paid, (\d+) cancelled, (\d+) expired, (\d+) held, (\d+) to refund", done.out).groups())
    total, paid, cancelled, expired, left, refunds = orders
    assert total == told == paid + cancelled + expired + left + refunds and paid == sold and cancelled + expired > 0, done.out
    assert int(re.findall(r"too fast (\d+)", done.out)[-1]) > 0, "no bot was told to slow down"
    assert not os.path.exists(re.search(r"data +(\S+), removed", done.out).group(1))


def is_free(lock):
    with open(lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_control_c_leaves_no_server_and_no_folder(demo):
    one = demo("--open-in", "600")
    assert one.answers() and one.folder.is_dir()
    one.press_control_c()
    assert one.ended() == 1, one.text()
    assert "before the proof" in one.text() and "add up" not in one.text()
    assert not one.answers() and not one.folder.exists()


def test_a_demo_that_is_killed_takes_its_server_along_and_the_next_one_removes_its_folder(demo, tmp_path):
    there = {"TMPDIR": str(tmp_path)}
    killed = demo("--open-in", "600", env=there)
    assert killed.answers()
    killed.process.kill()
    killed.ended()
    assert not killed.answers()
    eventually(lambda: is_free(killed.folder / "lock"))  # the last of those it had started is gone
    assert killed.folder.parent == tmp_path and (killed.folder / "data" / "ledger.db").is_file()
    kept, elsewhere, link, other = (tmp_path / name for name in ("stampede-demo-keptkp", "elsewhere", "stampede-demo-linked", "stampede-demo-longer1"))
    for folder in (kept, elsewhere, other):
        folder.mkdir()
        (folder / "what").write_text("is to be looked at")
    for folder in (elsewhere, other):
        (folder / "lock").write_text("")
    link.symlink_to(elsewhere)
    runs = demo("--open-in", "600", env=there)
    assert not killed.folder.exists() and f"removing {killed.folder}" in runs.text()
    second = demo("--open-in", "600", env=there)
    assert runs.answers() and runs.folder.is_dir() and "removing" not in second.text()
    runs.process.kill()
    runs.ended()
    eventually(lambda: is_free(runs.folder / "lock"))
    second.press_control_c()
    assert second.ended() == 1 and not second.folder.exists() and runs.folder.is_dir(), "each removes its own"
    third = demo("--open-in", "600", env=there)
    third.press_control_c()
    assert third.ended() == 1
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in (kept, elsewhere, link, other)}
    assert all((folder / "what").is_file() for folder in (kept, link, other))


def test_keep_serves_after_the_proof_until_control_c(demo):
    one = demo("--keep", "--open-in", "1", "--seconds", "1", "--buyers", "20", "--bots", "0", "--stock", "5")
    one.waits_for(r"(goes on at)")
    assert one.answers() and "WRONG" not in one.text()
    one.press_control_c()
    assert one.ended() == 0 and "\nthe numbers add up\n" in one.text(), one.text()
    assert not one.folder.exists()


def test_a_ledger_that_was_tampered_with_does_not_add_up(demo):
    one = demo(*SHORT)
    ledger = Ledger(one.folder / "data" / "ledger.db")
    eventually(lambda: ledger.rows("SELECT 1 FROM orders"), 30)
    assert ledger.change("UPDATE orders SET buyer = 'mallory' WHERE no = (SELECT min(no) FROM orders)") == 1
    assert one.ended() == 1, one.text()
    assert re.search(r"WRONG +\d+ wins were told, \d+ of them are in the ledger, 1 with another buyer", one.text()), one.text()
    assert "audit: FAILED" in one.text() and "\nthe numbers add up" not in one.text(), one.text()
    assert one.folder.is_dir() and not (one.folder / "lock").exists(), "what was found is there to be looked at, and no later demo removes it"


@pytest.mark.parametrize("flags,says", [
    (["--buyers", "0"], "--buyers is a whole number from 1 to 200000, not 0"), (["--buyers"], "--buyers needs a value"), (["--crowd"], "--crowd is no flag of demo"),
    (["--http", "nowhere"], "--http is ADDRESS:PORT, not nowhere"), (["--crowd", "5"], "--crowd is no flag of demo"), (["now"], "now is no flag of demo"),
    (["--keep", "--seconds=1.5"], "--seconds is a whole number from 1 to 600, not 1.5")], ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_wrong_flags_are_told_and_nothing_is_started(flags, says):
    done = run("demo", *flags)
    assert done.code == 2 and done.err.startswith(f"stampede: {says}\nusage: stampede demo") and done.out == "", done.text


def test_a_port_that_is_taken_is_told(server):
    done = run("demo", "--http", f"127.0.0.1:{server.port}")
    assert done.code == 1 and "the server has ended by itself" in done.err and str(server.port) in done.err, done.text
