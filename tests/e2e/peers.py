"""Servers that this release of the system does not have, brought by tools/bring-peers."""

import pathlib
import subprocess

BRING = pathlib.Path(__file__).parents[2] / "tools" / "bring-peers"
BRING_S_MAX = 300


def brought(name):
    """Where its program is."""
    done = subprocess.run([BRING, name], stdout=subprocess.PIPE, text=True, timeout=BRING_S_MAX)
    assert done.returncode == 0, f"{BRING} {name} failed; it has said why"
    return done.stdout.strip()
