"""Fixtures: a browser for each module, a server for each module, and a page in the browser that complains about whatever the console says."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from access import axe_text  # noqa: E402
from browser import Browser, Page  # noqa: E402
from console import Console  # noqa: E402
from fixtures import own_server, pytest_runtest_makereport  # noqa: E402,F401
from harness import Server, Shop  # noqa: E402


@pytest.fixture(scope="module")
def browser():
    one = Browser()
    yield one
    one.close()


@pytest.fixture(scope="module")
def server_flags():
    """What the server of a module is started with; a module that needs something else has a fixture of the same name."""
    return ["--demo-payments", "on"]


@pytest.fixture(scope="module")
def server(server_flags):
    shared = Server(*server_flags).start()
    yield shared
    shared.close()


@pytest.fixture
def shop(server):
    mine = Shop(server)
    yield mine
    mine.close()


def visited(page):
    yield page
    page.finish()


@pytest.fixture
def page(browser, server):
    """The site of the server, as nobody, in English, on a desk."""
    yield from visited(Page(browser, server))


@pytest.fixture
def console(browser, server):
    """The console of the server, the same way."""
    yield from visited(Console(browser, server))


@pytest.fixture(scope="session")
def axe():
    return axe_text()
