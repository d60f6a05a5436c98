"""A real MariaDB for the tests: in a folder of its own, on a free port of this machine, ended by whoever started it.

STAMPEDE_LEDGER=mysql has the whole harness keep its ledgers there: each data folder gets a database of its own. Many test files share
one MariaDB when STAMPEDE_LEDGER_PORT says where it is; else each pytest starts one. Making an empty one takes seconds: STAMPEDE_MARIADB_NEW
names a folder where the first of them is kept for the others to begin with."""

import atexit
import contextlib
import ctypes
import fcntl
import getpass
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import tempfile
import time

import pymysql
from ports import free_port

READY_S_MAX = 60
LOG_SIZE = "--innodb-log-file-size=64M"
PASSWORD = "p4ss:w/rd@?"  # one that a URL could not hold
PRCTL = ctypes.CDLL(None).prctl
PR_SET_PDEATHSIG = 1


def end_with_parent():
    PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)


def program(*names):
    """The first of these that is there; Debian keeps servers where not everyone looks."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    found = next((at for at in (shutil.which(name, path=path) for name in names) if at), None)
    assert found, f"none of {names} is installed"
    return found


@contextlib.contextmanager
def locked(path):
    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class MariaDB:
    """mariadbd in a temporary folder. The user "shop" may do everything, with a password."""

    def __init__(self, *flags, port=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="stampede-mariadb-"))
        self.flags = [*flags]
        self.port = port or free_port()
        self.socket = self.folder / "s"
        self.process = None
        self.user = ["--user=root"] if getpass.getuser() == "root" else []
        # Whoever starts clears the temporary tables in its folder for such things, which are others' where it is not its own.
        (self.folder / "tmp").mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.folder / "tmp")}
        again = os.environ.get("STAMPEDE_MARIADB_NEW")
        if again:
            with locked(again + ".lock"):
                if not os.path.exists(again):
                    self.install(pathlib.Path(again + ".half"))
                    os.rename(again + ".half", again)
            shutil.copytree(again, self.folder / "data")
        else:
            self.install(self.folder / "data")

    def install(self, data):
        made = subprocess.run([program("mariadb-install-db", "mysql_install_db"), "--no-defaults", f"--datadir={data}", "--skip-test-db",
                               "--auth-root-authentication-method=normal", LOG_SIZE, *self.user], capture_output=True, timeout=120,
                              env=self.environment)
        assert made.returncode == 0, f"mariadb-install-db: {made.stdout.decode()} {made.stderr.decode()}"

    def start(self, *more):
        assert self.process is None
        command = [program("mariadbd", "mysqld"), "--no-defaults", f"--datadir={self.folder / 'data'}", *self.user, f"--port={self.port}",
                   "--bind-address=127.0.0.1", f"--socket={self.socket}", f"--pid-file={self.folder / 'pid'}", "--skip-name-resolve",
                   "--innodb-buffer-pool-size=128M", LOG_SIZE, "--max-connections=2000", "--performance-schema=off", *self.flags, *more]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                            env=self.environment, preexec_fn=end_with_parent)
        end = time.monotonic() + READY_S_MAX
        while True:
            try:
                with self.root():
                    break
            except pymysql.Error as error:
                assert self.process.poll() is None and time.monotonic() < end, f"mariadbd: {error}\n{self.log()}"
                time.sleep(0.02)
        self.do(f"CREATE USER IF NOT EXISTS shop@'%' IDENTIFIED BY '{PASSWORD}'", "GRANT ALL ON *.* TO shop@'%'")
        return self

    def log(self):
        return (self.folder / "log").read_text(errors="replace")[-5000:]

    def kill(self):
        """SIGKILL: what it had not made durable is gone."""
        self.process.kill()
        self.process.wait(30)
        self.process = None

    def pause(self):
        """It is there and says nothing, as a machine that hangs."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.process = None

    def close(self):
        if self.process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self if self.process else self.start()

    def __exit__(self, *_):
        self.close()

    @contextlib.contextmanager
    def root(self, database=None):
        db = pymysql.connect(unix_socket=str(self.socket), user="root", database=database, autocommit=True, charset="utf8mb4",
                             cursorclass=pymysql.cursors.DictCursor)
        try:
            yield db
        finally:
            db.close()

    def do(self, *statements, database=None):
        with self.root(database) as db, db.cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)
            return cursor.fetchall()

    def database(self):
        """A new one; its URL."""
        return make_database(self.port)


def connect(port, database=None):
    return pymysql.connect(host="127.0.0.1", port=port, user="shop", password=PASSWORD, database=database, autocommit=True, charset="utf8mb4",
                           cursorclass=pymysql.cursors.DictCursor)


def make_database(port):
    name = "t" + secrets.token_hex(6)
    with contextlib.closing(connect(port)) as db, db.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    return f"mysql://shop@127.0.0.1:{port}/{name}"


SHARED = []


def shared_port():
    """Where the one is that all servers of this process use."""
    given = os.environ.get("STAMPEDE_LEDGER_PORT")
    if given:
        return int(given)
    if not SHARED:
        SHARED.append(MariaDB().start())
        atexit.register(SHARED[0].close)
    return SHARED[0].port
