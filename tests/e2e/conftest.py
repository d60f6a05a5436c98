"""Fixtures: one server for each module, a shop on it for each test."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from brokers import kafka, kafka_binary, rabbit, rabbit_node, redis_server  # noqa: E402,F401
from fixtures import own_server, pytest_runtest_makereport  # noqa: E402,F401
from gates import ON_REDIS  # noqa: E402
from harness import Server, Shop  # noqa: E402
from ledgers import ON_MYSQL  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "local: about memory, journal or disk of the gate of one machine, and left out where the gate is in Redis")
    config.addinivalue_line("markers", "sqlite: about SQLite's file itself, and left out where the ledger is in MySQL")


def pytest_collection_modifyitems(config, items):
    names = ["sqlite"] * ON_MYSQL + ["local"] * ON_REDIS
    left_out = [item for item in items if any(item.get_closest_marker(name) for name in names)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="module")
def server_flags():
    """What the server of a module is started with; a module that needs something has a fixture of the same name."""
    return []


@pytest.fixture(scope="module")
def server(request, server_flags):
    """Shared by the tests of a module. When one of them failed, the log is shown at the end of the module."""
    failed_before = request.session.testsfailed
    shared = Server(*server_flags).start()
    yield shared
    if request.session.testsfailed > failed_before:
        print(shared.log())
    shared.close()


@pytest.fixture
def shop(server):
    """A seller of its own; checks after the test that the server is alive and no sanitizer has spoken."""
    mine = Shop(server)
    yield mine
    mine.close()
    assert server.alive(), f"the server has ended\n{server.log()}"
    server.check_log()
