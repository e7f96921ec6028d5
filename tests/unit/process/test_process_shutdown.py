"""A process ends, whatever the threads of an application do."""

from __future__ import annotations

import subprocess
import sys

import pytest

HANGING = {
    "a pool's": "ThreadPoolExecutor().submit(threading.Event().wait)",
    "its own": "threading.Thread(target=threading.Event().wait).start()",
}
ENDS = """
import threading
from concurrent.futures import ThreadPoolExecutor
from streams.process.shutdown import end_within
{hanging}
end_within(0.1, 70)
"""


STAGE = """
import atexit, os, sys
from streams.stages import StageProcess
from streams.cli.main import main
StageProcess.run = lambda *_: print("done") or atexit.register(os.abort)
sys.argv = ["tidegate", "dedup"]
main()
"""


def test_a_stage_that_is_done_ends_without_the_interpreters_own_end() -> None:
    """In which librdkafka's threads may meet objects that are gone already."""
    ended = subprocess.run(
        [sys.executable, "-c", STAGE], timeout=60, check=False, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


FAILS = """
import atexit, os, sys
from streams.errors import StageFailed
from streams.stages import StageProcess
from streams.cli.main import main
def fail(*_):
    atexit.register(os.abort)
    raise StageFailed("for a reason")
StageProcess.run = fail
sys.argv = ["tidegate", "dedup"]
main()
"""


def test_a_stage_that_failed_ends_so_too_and_says_why() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FAILS], timeout=60, check=False, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, "error: for a reason")


@pytest.mark.parametrize("whose", HANGING)
def test_a_thread_that_hangs_keeps_no_process_from_ending(whose: str) -> None:
    program = ENDS.format(hanging=HANGING[whose])
    assert subprocess.run([sys.executable, "-c", program], timeout=20, check=False).returncode == 70


def test_a_command_ends_at_sigterm_where_the_signal_has_no_default_action() -> None:
    """As for the first process of a container; an ignored signal is inherited likewise."""
    program = (
        "import os, signal\n"
        "from streams.process.shutdown import end_on_sigterm\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "end_on_sigterm()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "signal.pause()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)
    assert ended.returncode == 143
