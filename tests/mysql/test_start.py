"""A database that cannot be the ledger is refused at the start, in one sentence that says what to do."""

import concurrent.futures
import contextlib
import subprocess

import databases
import pytest
from harness import ServerDied, Shop, eventually, run
from ledgers import DATABASES
from ports import free_port

PASSWORD = "correct horse"


def refused(server, exit_code, *words):
    """What it said."""
    with pytest.raises(ServerDied) as died:
        server.start(ready_s=60)
    text = str(died.value)
    assert f"exit {exit_code}\n" in text, text
    for word in words:
        assert word in text, f"{word!r} is not in: {text}"
    assert databases.PASSWORD not in text
    return text


def new_name(db):
    return db.database().rpartition("/")[2]


def url_of(db, user="shop", database=None):
    return f"mysql://{user}@127.0.0.1:{db.port}/{database or new_name(db)}"


def test_a_wrong_password_is_told(db, at):
    refused(at(start=False, env={"STAMPEDE_LEDGER_PASSWORD": "wrong"}), 1, "Access denied for user 'shop'", "STAMPEDE_LEDGER_PASSWORD")


def test_a_wrong_user_is_told(db, at):
    refused(at(start=False, url=url_of(db, user="nobody")), 1, "Access denied for user 'nobody'")


def test_a_database_that_is_not_there_is_told(db, at):
    refused(at(start=False, url=url_of(db, database="nowhere")), 1, "Unknown database 'nowhere'", "CREATE DATABASE")


def test_a_host_that_does_not_answer_is_told(db, at):
    port = free_port()
    refused(at(start=False, url=f"mysql://shop@127.0.0.1:{port}/x"), 1, "connecting failed", "Can't connect to server", "check that a server runs there")


def test_a_user_without_rights_is_told(db, at):
    name = new_name(db)
    db.let_in("poor", f"SELECT ON {name}.*")
    refused(at(start=False, url=url_of(db, user="poor", database=name)), 1, "CREATE command denied to user 'poor'", "GRANT ALL ON")


def test_a_right_that_is_missing_is_found_before_a_table_is_made(db, at):
    """So that giving it is all there is to do."""
    name = new_name(db)
    db.let_in("some", f"SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, INDEX, ALTER ON {name}.*")
    server = at(start=False, url=url_of(db, user="some", database=name))
    for _ in range(2):
        refused(server, 1, "TRIGGER command denied to user 'some'", "GRANT ALL ON")
    db.do(f"GRANT ALL ON {name}.* TO some@'%'")
    server.start()
    shop = Shop(server)
    shop.win(shop.sale()["id"], "ann")
    shop.close()


def test_a_right_that_was_taken_away_is_told(db, at):
    server = at()
    server.stop()
    name = server.ledger().database
    db.let_in("reader", f"SELECT ON {name}.*")
    DATABASES[str(server.data.resolve())] = url_of(db, user="reader", database=name)
    refused(server, 1, "command denied to user 'reader'", "GRANT ALL ON")


def test_a_database_that_hangs_is_told(db, at):
    server = at(start=False)
    db.pause()
    try:
        refused(server, 1, " s: waiting for it, ", "connecting failed", "check that the server there is well")
    finally:
        db.resume()


@pytest.mark.parametrize("url,words", [
    ("mysql://shop:s3cret@127.0.0.1/x", "has a password"),
    ("postgres://shop@127.0.0.1/x", "mysql://"),
    ("mysql://127.0.0.1/x", "names no user"),
    ("mysql://shop@127.0.0.1", "names no database"),
    ("mysql://shop@127.0.0.1:99999/x", "port"),
    ("mysql://shop@/x", "names no host"),
    ("mysql://shop@h/x?sock=/a", "socket=PATH"),
    ("oracle", "mysql://"),
])
@pytest.mark.parametrize("command", [("serve",), ("audit",), ("export", "orders", "--format", "csv"), ("repair",)])
def test_a_url_that_is_none_is_told(tmp_path, command, url, words):
    (tmp_path / "d").mkdir()
    done = run(*command, "--data", tmp_path / "d", "--ledger", url)
    assert done.code in (1, 2) and words in done.err and "s3cret" not in done.text, done


def test_the_password_may_be_in_a_file_that_only_its_owner_reads(db, at, tmp_path):
    path = tmp_path / "password"
    path.write_text(databases.PASSWORD + "\n")
    path.chmod(0o644)
    flags = ("--ledger-password-file", path)
    refused(at(*flags, start=False, env={"STAMPEDE_LEDGER_PASSWORD": ""}), 2, "ledger_password_file")
    path.chmod(0o600)
    with at(*flags, env={"STAMPEDE_LEDGER_PASSWORD": ""}) as server:
        assert Shop(server).sale()["id"]
        with open(f"/proc/{server.pid}/cmdline", "rb") as line:
            assert databases.PASSWORD.encode() not in line.read()


def test_a_socket_is_a_way_to_it(db, at):
    with at(url=f"mysql://shop@/{new_name(db)}?socket={db.socket}") as server:
        shop = Shop(server)
        shop.win(shop.sale()["id"], "ann")


def test_a_database_that_may_lose_commits_is_refused(db, at):
    """P3 goes as far as the ledger: what it has committed must be there after a crash of its machine."""
    db.do("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
    try:
        server = at(start=False)
        refused(server, 1, "may lose what it has committed", "innodb_flush_log_at_trx_commit = 1", "ledger_unsafe")
        server.flags += ["--ledger-unsafe", "on"]
        server.start()
        assert "innodb_flush_log_at_trx_commit is not 1" in server.log()
    finally:
        db.do("SET GLOBAL innodb_flush_log_at_trx_commit = 1")


def test_a_binary_log_that_is_not_synced_is_refused(own_server):
    with databases.Database("--log-bin", "--sync-binlog=0") as logging:
        server = own_server(start=False)
        DATABASES[str(server.data.resolve())] = logging.database()
        refused(server, 1, "sync_binlog = 1")
        logging.do("SET GLOBAL sync_binlog = 1")
        server.start()
        shop = Shop(server)
        shop.win(shop.sale()["id"], "ann")
        shop.close()
        server.stop()
        assert server.audit().code == 0


@pytest.mark.parametrize("tampering,words", [
    ("UPDATE meta SET changing = 1, version = 0", "drop its tables or the database"),
    ("DELETE FROM meta", "drop its tables or the database"),
    ("UPDATE meta SET version = version + 1, works_from = version", "by a newer release; start that one"),
    ("UPDATE meta SET works_from = version + 1, changing = 1", "by a newer release; start that one"),
    ("DROP TABLE meta", "has tables, but no table meta; name an empty one"),
    ("DROP TABLE tokens", "lacks the table tokens: put it back from a copy"),
    ("RENAME TABLE orders TO orders_of_before", "lacks the table orders: put it back from a copy"),
])
def test_a_schema_that_is_not_whole_is_refused_and_left_alone(at, tampering, words):
    server = at()
    server.stop()
    ledger = server.ledger()
    ledger.change(tampering)
    before = ledger.digest()
    refused(server, 1, words)
    assert run("audit", "--data", server.data).code == 1
    assert ledger.digest() == before


@pytest.mark.parametrize("tampering, words", [
    ("ALTER TABLE orders DROP COLUMN reason", "lacks the column reason of the table orders: put it back from a copy"),
    ("ALTER TABLE orders RENAME COLUMN reason TO reasons", "lacks the column reason of the table orders"),
    ("ALTER TABLE orders DROP INDEX orders_by_nth", "lacks the unique index orders_by_nth of the table orders"),
    ("ALTER TABLE orders DROP INDEX orders_by_nth, ADD INDEX orders_by_nth (counted)", "lacks the unique index orders_by_nth of the table orders"),
    ("ALTER TABLE orders DROP PRIMARY KEY", "lacks the unique index PRIMARY of the table orders"),
    ("ALTER TABLE revoked DROP INDEX token_id", "lacks the unique index token_id of the table revoked"),
    ("ALTER TABLE subscriptions DROP PRIMARY KEY", "lacks the unique index PRIMARY of the table subscriptions"),
    ("ALTER TABLE sales DROP INDEX sales_holding", "lacks the index sales_holding of the table sales"),
    ("DROP TRIGGER outbox_counted", "lacks the trigger outbox_counted of the table outbox"),
    ("DROP TRIGGER outbox_counted; DROP TRIGGER outbox_recounted; DROP TRIGGER outbox_uncounted", "lacks the trigger outbox_counted of the table outbox"),
])
def test_a_table_that_is_not_whole_is_refused(at, tampering, words):
    """Its unique indexes are the last word about who wins. What somebody has put there beside it is theirs."""
    server = at()
    server.stop()
    for statement in tampering.split("; "):
        server.ledger().change(statement)
    refused(server, 1, words)


def test_what_an_operator_has_added_to_the_tables_is_theirs(at):
    server = at()
    server.stop()
    server.ledger().change("ALTER TABLE orders ADD COLUMN note VARCHAR(20), ADD INDEX orders_by_note (note)")
    server.start()


def wins(server, buyer):
    shop = Shop(server)
    shop.win(shop.sale()["id"], buyer)
    shop.close()


def test_a_newer_schema_that_works_with_us_is_worked_with(at):
    """So that an upgrade can be taken back, and a server that ends in the midst of one comes back."""
    server = at()
    wins(server, "ann")
    server.stop()
    ledger = server.ledger()
    made = ledger.rows("SELECT version, changing, works_from FROM meta")[0]
    assert made["changing"] == 0 and 1 <= made["works_from"] <= made["version"]
    ledger.change("UPDATE meta SET version = version + 1, works_from = version - 1")
    before = ledger.rows("SELECT * FROM meta")
    assert run("admin", "create", "root", "--data", server.data, stdin=PASSWORD + "\n").code == 0
    server.start()
    assert "of a newer release; this program knows" in server.log()
    wins(server, "bob")
    server.stop()
    assert server.audit().code == 0
    assert ledger.rows("SELECT * FROM meta") == before


def test_a_change_that_was_interrupted_lets_nobody_start(at):
    """Whoever runs does not mind, nor who only reads: see what each of them asks of the schema."""
    server = at()
    wins(server, "ann")
    server.stop()
    ledger = server.ledger()
    for newer in (0, 1):
        ledger.change("UPDATE meta SET changing = 1, version = version + ?", (newer,))
        before = ledger.digest()
        refused(server, 1, "when that was interrupted: stop all its servers, put back the copy")
        assert run("admin", "create", "root", "--data", server.data, stdin=PASSWORD + "\n").code == 1
        assert server.audit().code == 0
        assert ledger.digest() == before


def test_a_change_that_fails_half_way_is_told_the_next_time(db, at):
    """As a crash in the middle leaves it: some tables are there, and MySQL takes none of them back."""
    server = at(start=False)
    name = server.ledger().database
    db.do("CREATE TABLE meta (one INT PRIMARY KEY, version BIGINT NOT NULL, changing INT NOT NULL, works_from BIGINT NOT NULL)", "INSERT INTO meta VALUES (1, 0, 0, 0)",
          "CREATE TABLE events (id INT)", database=name)
    refused(server, 1, "Table 'events' already exists")
    db.do("DROP TABLE events", database=name)
    refused(server, 1, "drop its tables or the database")


def test_many_that_start_at_once_make_the_tables_once(db, tmp_path):
    """One lock is all they share: not one of them may see half a schema."""
    for _ in range(3):
        url = db.database()

        def create(i):
            return run("admin", "create", f"root{i}", "--data", tmp_path, "--ledger", url, stdin=PASSWORD + "\n")
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            done = list(pool.map(create, range(6)))
        assert [one.code for one in done] == [0] * 6, done
        rows = db.do("SELECT count(*) AS n FROM users", database=url.rpartition("/")[2])
        assert rows[0]["n"] == 6


@contextlib.contextmanager
def tables_locked(db, name):
    """While this lasts it is somebody else who makes or changes the tables."""
    lock = "concat('stampede.', left(sha2(database(), 256), 32))"
    with db.root(name) as other, other.cursor() as cursor:
        cursor.execute(f"SELECT get_lock({lock}, 0) AS got")
        assert cursor.fetchall() == [{"got": 1}]
        yield
        cursor.execute(f"SELECT release_lock({lock})")


def waits(server):
    server.start_unready()
    eventually(lambda: "another server is making or changing the tables: waiting for it" in server.log(), 60)


def test_one_that_finds_another_making_the_tables_says_that_it_waits(db, at):
    """Longer than one wait for the lock."""
    server = at(start=False)
    with tables_locked(db, server.ledger().database):
        waits(server)
    assert server.ready(60), server.log()
    wins(server, "ann")


def test_one_that_starts_while_a_newer_one_changes_the_tables_waits_for_it(db, at):
    """It cannot know whether that ends well; who only reads has nothing to wait for."""
    server = at()
    wins(server, "ann")
    server.stop()
    ledger = server.ledger()
    with tables_locked(db, ledger.database):
        ledger.change("UPDATE meta SET changing = 1")
        assert server.audit().code == 0
        waits(server)
        ledger.change("UPDATE meta SET version = version + 1, changing = 0")
    assert server.ready(60), server.log()
    wins(server, "bob")
    assert "interrupted" not in server.log()


def test_a_change_of_tables_takes_as_long_as_it_takes(db, at):
    """Longer than the longest wait of the session; given up it would be one that was interrupted."""
    server = at(start=False)
    name = server.ledger().database
    db.do("CREATE TABLE meta (one INT PRIMARY KEY, version BIGINT NOT NULL, changing INT NOT NULL, works_from BIGINT NOT NULL)", "INSERT INTO meta VALUES (1, 0, 0, 0)",
          database=name)
    with db.root() as other, other.cursor() as cursor:
        cursor.execute("FLUSH TABLES WITH READ LOCK")
        server.start_unready()
        eventually(lambda: "Lock wait timeout exceeded" in server.log() and "s: waiting for it\"" in server.log(), 60)
        cursor.execute("UNLOCK TABLES")
    assert server.ready(60), server.log()
    wins(server, "ann")
    assert " more at most" not in server.log()


def test_one_that_starts_while_the_tables_become_others_than_it_knows_says_so_at_once(db, at):
    server = at()
    server.stop()
    with tables_locked(db, server.ledger().database):
        server.ledger().change("UPDATE meta SET changing = 1, works_from = version + 1")
        assert "waiting for it" not in refused(server, 1, "by a newer release; start that one")


def test_who_only_reads_is_told_when_the_tables_are_still_being_made(db, at):
    server = at()
    server.stop()
    with tables_locked(db, server.ledger().database):
        server.ledger().change("UPDATE meta SET changing = 1, version = 0")
        done = run("audit", "--data", server.data)
    assert done.code == 1 and "wait for it, and start again" in done.text, done


def certificate(folder, name):
    key, cert = folder / f"{name}.key", folder / f"{name}.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, timeout=60)
    return key, cert


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """A database with TLS, and its certificate. Its user "hidden" is let in with TLS only."""
    key, cert = certificate(tmp_path_factory.mktemp("tls"), "server")
    with databases.Database(f"--ssl-cert={cert}", f"--ssl-key={key}") as one:
        one.let_in("hidden", "ALL ON `t%`.*", by="REQUIRE SSL")
        yield one, cert


@pytest.fixture
def at_secure(secure, own_server):
    def make(*flags):
        server = own_server(*flags, start=False)
        DATABASES[str(server.data.resolve())] = secure[0].database().replace("shop@", "hidden@")
        return server
    return make


def test_tls_hides_and_verifies(secure, at_secure, tmp_path):
    _, cert = secure
    _, other = certificate(tmp_path, "other")
    refused(at_secure(), 1, "Access denied")
    for flags in (("--ledger-tls", "required"), ("--ledger-tls", "verify", "--ledger-tls-ca", cert)):
        server = at_secure(*flags).start()
        assert Shop(server).sale()["id"]
    refused(at_secure("--ledger-tls", "verify", "--ledger-tls-ca", other), 1, "certificate")


def test_a_database_that_hangs_behind_tls_is_said_and_given_up(secure, at_secure):
    """After the login, by a lock of another. Also by a command that waits for its answers without an end, when there has been a first."""
    db, _ = secure
    server = at_secure("--ledger-tls", "required").start()
    server.stop()
    db.do("CREATE DATABASE theld", "CREATE TABLE theld.held (n INT PRIMARY KEY) ENGINE = InnoDB", "INSERT INTO theld.held VALUES (1)")
    with db.root("theld") as other, other.cursor() as cursor, concurrent.futures.ThreadPoolExecutor(1) as pool:
        other.begin()
        cursor.execute("SELECT n FROM held FOR UPDATE")
        db.do("SET GLOBAL innodb_lock_wait_timeout = 600", "SET GLOBAL init_connect = 'SELECT n FROM theld.held FOR UPDATE'")
        try:
            export = pool.submit(run, "export", "orders", "--format", "csv", "--data", server.data, "--ledger-tls", "required")
            said = refused(server, 1, "it has not answered in time (2013)")
            export = export.result()
        finally:
            db.do("SET GLOBAL init_connect = ''")
    assert export.code == 1 and "it has not answered in time (2013)" in export.err, export
    for text in (said, export.err):
        assert " has not answered for " in text and "s: waiting for it, " in text, text


def test_a_question_whose_connection_behind_tls_is_lost_is_asked_again(secure, at_secure):
    db, _ = secure
    server = at_secure("--ledger-tls", "required").start()
    shop = Shop(server)
    login = {"username": shop.seller + "-buyer", "password": PASSWORD}
    assert shop.client.post("/v1/users", {**login, "role": "customer"}).status == 201
    waiting = "SELECT id FROM information_schema.processlist WHERE user = 'hidden' AND info LIKE '%users%' AND state LIKE 'Waiting for table%'"

    def asked_again():
        with db.root(server.ledger().database) as other, other.cursor() as cursor, concurrent.futures.ThreadPoolExecutor(1) as pool:
            cursor.execute("LOCK TABLES users WRITE")
            answer = pool.submit(shop.client.post, "/v1/login", login)
            found = eventually(lambda: db.do(waiting), 60)
            db.do(f"KILL {found[0]['id']}")
            cursor.execute("UNLOCK TABLES")
            return answer.result().status == 200
    eventually(asked_again, 60)
    shop.close()


def test_tls_that_is_required_and_not_there_is_told(db, at):
    refused(at("--ledger-tls", "required", start=False), 1, "does not offer TLS")
    refused(at("--ledger-tls", "verify", "--ledger-tls-ca", "/etc/ssl/certs/ca-certificates.crt", start=False), 1, "see that the server offers TLS")


def test_a_second_server_with_a_journal_of_its_own_is_refused(at, db):
    """Two journals in one ledger would be two truths."""
    url = db.database()
    first = at(url=url)
    shop = Shop(first)
    shop.win(shop.sale()["id"], "ann")
    shop.close()
    first.stop()
    refused(at(start=False, url=url), 3, "journal")
