"""Packages of npm: parts of the set-up of the tests, never of the repository."""

import fcntl
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def npm_modules(packages):
    """The folder node_modules with these packages in it, {name: version}; it is in the build folder, and one at a time puts things there."""
    folder = ROOT / "build" / "node"
    modules = folder / "node_modules"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((modules / name).exists() for name in packages):
            wanted = [f"{name}@{version}" for name, version in packages.items()]
            npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), *wanted]
            done = subprocess.run(npm, capture_output=True, text=True, timeout=180)
            assert done.returncode == 0, done
    return modules
