"""Commands on a terminal."""

import os
import pty
import select
import subprocess
import time

SECONDS_MAX = 60


def on_a_terminal(command, env, typed=None, **streams):
    """What a terminal shows while a command runs on it, and the exit status. Its three streams are the terminal's where nothing else is said.
    typed: a prompt, and what is typed once it is shown."""
    ours, theirs = pty.openpty()
    streams = {name: streams.get(name, theirs) for name in ("stdin", "stdout", "stderr")}
    process = subprocess.Popen(command, env=env, start_new_session=True, **streams)
    os.close(theirs)
    shown, end = b"", time.monotonic() + SECONDS_MAX
    try:
        while time.monotonic() < end:
            if typed is not None and typed[0].encode() in shown:
                os.write(ours, typed[1].encode() + b"\r")
                typed = None
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                piece = os.read(ours, 65536)
            except OSError:  # nobody has it open any more
                break
            if not piece:
                break
            shown += piece
        return shown.decode(), process.wait(SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
