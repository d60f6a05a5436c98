"""These tests stand on the harness of the end-to-end tests, with every ledger in MariaDB or MySQL, and on the witness of the crash tests."""

import os
import pathlib
import sys

import pytest

os.environ["STAMPEDE_LEDGER"] = "mysql"
for folder in ("e2e", "crash"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / folder))

from databases import Database  # noqa: E402
from fixtures import own_server, pytest_runtest_makereport  # noqa: E402,F401
from ledgers import DATABASES  # noqa: E402


@pytest.fixture(scope="module")
def db():
    """A database server of the module's own, which its tests may kill."""
    with Database() as one:
        yield one
        assert one.process is not None, "a test has left it dead"


@pytest.fixture
def at(db, own_server):  # noqa: F811
    """Makes a server whose ledger is there, in a new database or the one given."""
    def make(*flags, start=True, url=None, **more):
        server = own_server(*flags, start=False, **more)
        DATABASES[str(server.data.resolve())] = url or db.database()
        return server.start() if start else server
    return make
