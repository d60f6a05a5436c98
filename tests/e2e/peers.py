"""Servers that this release of the system does not have, brought by tools/bring-peers."""

import pathlib
import subprocess

BRING = pathlib.Path(__file__).parents[2] / "tools" / "bring-peers"
BRING_S_MAX = 300


def brought(name):
    """Where its program is."""
    done = subprocess.run(["timeout", "--kill-after=10", str(BRING_S_MAX), BRING, name], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, f"{BRING} {name} failed; it has said why"
    return done.stdout.strip()
