"""The crash tests stand on the harness of the end-to-end tests."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from fixtures import own_server, pytest_runtest_makereport  # noqa: E402,F401
