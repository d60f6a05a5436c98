"""Fixtures that end-to-end and crash tests share."""

import pytest
from harness import Server


@pytest.fixture
def own_server():
    """Makes servers that only this test uses, and ends them."""
    made = []

    def make(*flags, start=True, **more):
        one = Server(*flags, **more)
        made.append(one)
        return one.start() if start else one

    yield make
    for one in made:
        one.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    """With a test that failed the ends of the logs of all servers are shown, whoever has made them."""
    report = (yield).get_result()
    if report.failed and report.when == "call":
        report.sections += [("Captured stdout of a server", server.log(4000)) for server in Server.open if server.log_path.exists()]
