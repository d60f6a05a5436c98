"""Rows measured one part at a time, kept in the build folder until all of them are there.

A whole run takes the machine for most of an hour. Its parts may be run by themselves, on different quiet moments: what is
kept counts as long as src is the same."""

import dataclasses
import json
import os
import subprocess

import table


class Kept:
    """Grabs over HTTP by the name of their row, figures by the name of their part."""

    def __init__(self, path, root):
        self.path = path
        self.source = source_of(root)
        self.runs, self.figures = {}, {}
        try:
            with open(path, encoding="utf-8") as file:
                there = json.load(file)
        except (OSError, ValueError):
            return
        if self.source is None or there["source"] != self.source:
            return
        self.runs = {run["name"]: table.Run(**run) for run in there["runs"]}
        self.figures = {part: [table.Figure(**figure) for figure in rows] for part, rows in there["figures"].items()}

    def add(self, runs, figures):
        self.runs.update({run.name: run for run in runs})
        self.figures.update(figures)
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump({"source": self.source,
                       "runs": [dataclasses.asdict(run) for run in self.runs.values()],
                       "figures": {part: list(map(dataclasses.asdict, rows)) for part, rows in self.figures.items()}}, file)

    def missing(self, rows, parts):
        """Names of what has not been measured."""
        return [name for name in rows if name not in self.runs] + [part for part in parts if part not in self.figures]


def source_of(root):
    """Names the source that is measured; None where git cannot tell, and then nothing is kept from one run to the next."""
    def git(*words):
        return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    try:
        return None if git("status", "--porcelain", "--", "src") else git("rev-parse", "HEAD:src")
    except (OSError, subprocess.SubprocessError):
        return None
