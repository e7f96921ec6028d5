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


@pytest.mark.parametrize("whose", HANGING)
def test_a_thread_that_hangs_keeps_no_process_from_ending(whose: str) -> None:
    program = ENDS.format(hanging=HANGING[whose])
    assert subprocess.run([sys.executable, "-c", program], timeout=20, check=False).returncode == 70
