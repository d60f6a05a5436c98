"""Fixtures: a browser for each module, a server for each module, and a page in the browser that complains about whatever the console says."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from access import axe_text  # noqa: E402
from browser import Browser, Page  # noqa: E402
from fixtures import own_server  # noqa: E402,F401
from harness import Server, Shop  # noqa: E402


@pytest.fixture(scope="module")
def browser():
    one = Browser()
    yield one
    one.close()


@pytest.fixture(scope="module")
def server():
    shared = Server("--demo-payments", "on").start()
    yield shared
    shared.close()


@pytest.fixture
def shop(server):
    mine = Shop(server)
    yield mine
    mine.close()


@pytest.fixture
def page(browser, server):
    """The site of the server, as nobody, in English, on a desk."""
    one = Page(browser, server)
    yield one
    one.finish()


@pytest.fixture(scope="session")
def axe():
    return axe_text()
