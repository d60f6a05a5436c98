"""Processes that tests start."""

import ctypes
import signal

PRCTL = ctypes.CDLL(None).prctl
PR_SET_PDEATHSIG = 1


def end_with_parent():
    """In the new process: none outlives the tests, also when these are killed. It goes by the thread that started it, so servers are
    started on threads that live on."""
    PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)
