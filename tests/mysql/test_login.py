"""MySQL lets its users in by caching_sha2_password, which MariaDB does not have: with the proof of whom it remembers, else with the password itself, hidden
from the way. And what else only MySQL asks for at a start. On MySQL itself, whatever the other tests run on."""

import contextlib
import urllib.parse

import databases
import pytest
from harness import ServerDied, Shop, eventually
from ledgers import DATABASES

BY = "SELECT plugin AS p FROM mysql.user WHERE user = 'clerk'"


@pytest.fixture(scope="module", params=["plain", "tls"])
def mysql(request):
    """With TLS it has the certificate that it made itself."""
    with databases.MySQL(*(["--tls-version=TLSv1.3"] if request.param == "tls" else [])) as one:
        one.tls = request.param == "tls"
        yield one


@pytest.fixture
def clerk(mysql, own_server):
    """Makes a server that comes as a user whom MySQL has never seen."""
    def make(password=databases.PASSWORD, way=""):
        name = mysql.database().rpartition("/")[2]
        mysql.let_in("clerk", f"ALL ON {name}.*")
        assert mysql.do(BY) == [{"p": "caching_sha2_password"}]
        server = own_server(*(["--ledger-tls", "required"] if mysql.tls and not way else []), start=False, env={"STAMPEDE_LEDGER_PASSWORD": password})
        DATABASES[str(server.data.resolve())] = f"mysql://clerk@/{name}{way}" if way else f"mysql://clerk@127.0.0.1:{mysql.port}/{name}"
        return server
    return make


def sells(server):
    shop = Shop(server)
    with contextlib.closing(shop):
        sale = shop.sale(stock=10)["id"]
        return [shop.win(sale, buyer)["no"] for buyer in ("ann", "bob")], sale


def filed(mysql, server, sale):
    name = urllib.parse.urlsplit(DATABASES[str(server.data.resolve())]).path[1:]
    return [str(row["no"]) for row in mysql.do(f"SELECT no FROM orders WHERE sale = {int(sale)} ORDER BY no", database=name)]


def test_a_user_who_was_never_there_is_let_in(mysql, clerk):
    server = clerk().start()
    won, sale = sells(server)
    eventually(lambda: filed(mysql, server, sale) == won)
    server.stop()
    assert server.audit().code == 0


def test_a_user_who_is_not_remembered_any_more_is_let_in_again(mysql, clerk):
    server = clerk().start()
    won, sale = sells(server)
    eventually(lambda: filed(mysql, server, sale) == won)
    mysql.do("FLUSH PRIVILEGES")
    for row in mysql.do("SELECT id FROM information_schema.processlist WHERE user = 'clerk'"):
        with contextlib.suppress(databases.pymysql.Error):  # gone by itself
            mysql.do(f"KILL {row['id']}")
    won, sale = sells(server)
    eventually(lambda: filed(mysql, server, sale) == won)


def test_a_socket_is_a_way_to_it_for_one_who_was_never_there(mysql, clerk):
    server = clerk(way=f"?socket={mysql.socket}").start()
    won, sale = sells(server)
    eventually(lambda: filed(mysql, server, sale) == won)


def test_another_password_is_refused_in_a_sentence(clerk):
    with pytest.raises(ServerDied, match="Access denied for user 'clerk'.*STAMPEDE_LEDGER_PASSWORD"):
        clerk("wrong horse").start()


def test_a_user_who_may_not_make_triggers_beside_a_binary_log_is_told_what_to_set(mysql, clerk):
    """As MySQL is when nobody has set anything."""
    mysql.do("SET GLOBAL log_bin_trust_function_creators = 0")
    try:
        server = clerk()
        for _ in range(2):
            with pytest.raises(ServerDied, match="set log_bin_trust_function_creators = 1"):
                server.start()
        mysql.do("SET GLOBAL log_bin_trust_function_creators = 1")
        sells(server.start())
    finally:
        mysql.do("SET GLOBAL log_bin_trust_function_creators = 1")


def test_a_password_that_has_expired_is_told(mysql, clerk):
    server = clerk()
    mysql.do("ALTER USER clerk@'%' PASSWORD EXPIRE")
    with pytest.raises(ServerDied, match="expired"):
        server.start()
