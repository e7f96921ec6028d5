"""How many files a process may open: each connection is one."""

from __future__ import annotations

import resource
from contextlib import suppress

MOST = 65_536
"""More connections than one process serves."""


def allow_many() -> None:
    """Let this process open as many files as the system lets it, and `MOST` at most.

    A login shell and systemd give 1,024 to begin with, for programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a sandbox may not let it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
