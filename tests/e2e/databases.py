"""A real MariaDB or MySQL for the tests: in a folder of its own, on a free port of this machine, ended by whoever started it.

It is the system's MariaDB, or the mysqld of MySQL that STAMPEDE_TEST_MYSQL names (tools/bring-peers mysql prints one). STAMPEDE_LEDGER=mysql
has the whole harness keep its ledgers there: each data folder gets a database of its own. Many test files share one server when
STAMPEDE_LEDGER_PORT says where it is; else each pytest starts one. Making an empty one takes seconds: STAMPEDE_DATABASE_NEW names a folder
where the first of each kind is kept for the others to begin with."""

import atexit
import contextlib
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
from children import end_with_parent
from peers import brought
from ports import free_port

READY_S_MAX = 60
PASSWORD = "p4ss:w/rd@?"  # one that a URL could not hold
MYSQL = os.environ.get("STAMPEDE_TEST_MYSQL")


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


class Server:
    """A database server in a temporary folder. The user "shop" may do everything, with a password."""

    name = None
    flags = ["--bind-address=127.0.0.1", "--skip-name-resolve", "--innodb-buffer-pool-size=128M", "--max-connections=2000", "--performance-schema=off"]

    def __init__(self, *flags, port=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"stampede-{self.name}-"))
        self.flags = [*self.flags, *flags]
        self.port = port or free_port()
        self.socket = self.folder / "s"
        self.process = None
        self.user = ["--user=root"] if getpass.getuser() == "root" else []
        # Whoever starts clears the temporary tables in its folder for such things, which are others' where it is not its own.
        (self.folder / "tmp").mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.folder / "tmp")}
        kept = os.environ.get("STAMPEDE_DATABASE_NEW")
        if kept:
            kept = f"{kept}-{self.name}"
            with locked(kept + ".lock"):
                if not os.path.exists(kept):
                    self.install(pathlib.Path(kept + ".half"))
                    os.rename(kept + ".half", kept)
            shutil.copytree(kept, self.folder / "data")
        else:
            self.install(self.folder / "data")

    def make(self, *command):
        made = subprocess.run([*command, *self.user], capture_output=True, timeout=120, env=self.environment)
        assert made.returncode == 0, f"{command[0]}: {made.stdout.decode()} {made.stderr.decode()}"

    def start(self, *more):
        assert self.process is None
        command = [*self.command(), f"--datadir={self.folder / 'data'}", *self.user, f"--port={self.port}", f"--socket={self.socket}",
                   f"--pid-file={self.folder / 'pid'}", *self.flags, *more]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                            env=self.environment, preexec_fn=end_with_parent)
        end = time.monotonic() + READY_S_MAX
        while True:
            try:
                with self.root():
                    break
            except pymysql.Error as error:
                assert self.process.poll() is None and time.monotonic() < end, f"{self.name}: {error}\n{self.log()}"
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

    def let_in(self, user, *rights, by=""):
        """A user of that name from now on, who may do this and nothing else."""
        self.do(f"DROP USER IF EXISTS {user}@'%'", f"CREATE USER {user}@'%' IDENTIFIED BY '{PASSWORD}' {by}", *(f"GRANT {right} TO {user}@'%'" for right in rights))


class MariaDB(Server):
    name = "mariadb"
    log_size = "--innodb-log-file-size=64M"
    flags = [*Server.flags, log_size]

    def install(self, data):
        self.make(program("mariadb-install-db", "mysql_install_db"), "--no-defaults", f"--datadir={data}", "--skip-test-db",
                  "--auth-root-authentication-method=normal", self.log_size)

    def command(self):
        return [program("mariadbd", "mysqld"), "--no-defaults"]


class MySQL(Server):
    """As its makers set it up: with a binary log, and users of caching_sha2_password. Without TLS unless it is asked for, as MariaDB."""

    name = "mysql"
    flags = [*Server.flags, "--secure-file-priv=NULL", "--mysqlx=OFF", "--log-bin-trust-function-creators=ON"]

    def __init__(self, *flags, **more):
        self.program = MYSQL or brought("mysql")
        tls = any(flag.startswith(("--ssl-cert=", "--tls-version=")) for flag in flags)
        super().__init__(*flags, *([] if tls else ["--tls-version="]), **more)

    def install(self, data):
        self.make(*self.command(), f"--datadir={data}", "--initialize-insecure")

    def command(self):
        """What it reads beside its program lies beside it, wherever it was laid out."""
        base = next((folder for folder in pathlib.Path(self.program).parents if (folder / "usr/share/mysql/charsets").is_dir()), pathlib.Path("/")) / "usr"
        return [self.program, "--no-defaults", f"--basedir={base}", f"--lc-messages-dir={base}/share/mysql"]


Database = MySQL if MYSQL else MariaDB


def connect(port, database=None):
    return pymysql.connect(host="127.0.0.1", port=port, user="shop", password=PASSWORD, database=database, autocommit=True, charset="utf8mb4",
                           cursorclass=pymysql.cursors.DictCursor)


def forget_checks(cursor):
    """For what is done here next, constraints do not count. MySQL cannot do that for one session: there none of the database counts any more."""
    if not MYSQL:
        cursor.execute("SET SESSION check_constraint_checks = OFF")
        return
    cursor.execute("SELECT table_name AS name, constraint_name AS rule FROM information_schema.table_constraints"
                   " WHERE table_schema = database() AND constraint_type = 'CHECK' AND enforced = 'YES'")
    for row in cursor.fetchall():
        cursor.execute(f"ALTER TABLE {row['name']} ALTER CHECK {row['rule']} NOT ENFORCED")


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
        SHARED.append(Database().start())
        atexit.register(SHARED[0].close)
    return SHARED[0].port
