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
