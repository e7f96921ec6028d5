"""SIGTERM to a forked child ends the child, and does not reach the process that forked it."""

from __future__ import annotations

import subprocess
import sys

import pytest

FORKS = """
import asyncio, multiprocessing, os, signal, sys, threading
import uvloop
from streams.cli.main import main
from streams.process.shutdown import ProcessEnd
from streams.stages import StageProcess

def forks():
    with multiprocessing.Pool(2) as pool:
        pool.map(abs, [-1])
    for number in (signal.SIGTERM, signal.SIGINT):
        readable, writable = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.write(writable, b"x")
                signal.pause()
            except KeyboardInterrupt:
                os._exit(42)
        os.read(readable, 1)
        os.kill(child, number)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

async def served(fork):
    end = asyncio.create_task(ProcessEnd().wait())
    await asyncio.sleep(0)
    await fork()
    later = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, later.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await later.wait()  # a signal of the children would have come through the same pipe before
    print("told" if end.done() else "untold")
    os.kill(os.getpid(), signal.SIGTERM)
    await end

async def in_the_loop():
    forks()

async def in_a_thread():
    await asyncio.to_thread(forks)

def by_handler(stop):
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    signal.signal(signal.SIGINT, lambda *_: stop.append(1))
    forks()
    print("told" if stop else "untold")
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop

RUNS = {
    "uvloop": lambda: uvloop.run(served(in_the_loop)),
    "uvloop, a thread": lambda: uvloop.run(served(in_a_thread)),
    "asyncio": lambda: asyncio.run(served(in_the_loop)),
    "a handler": lambda: by_handler([]),
}
StageProcess.run = lambda *_: RUNS[os.environ["TAKEN_BY"]]()
sys.argv = ["tidegate", "dedup"]
main()
"""


@pytest.mark.parametrize("taken_by", ["uvloop", "uvloop, a thread", "asyncio", "a handler"])
def test_a_signal_to_a_forked_child_ends_that_child_alone(
    taken_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKEN_BY", taken_by)
    ended = subprocess.run(
        [sys.executable, "-c", FORKS], timeout=60, check=False, capture_output=True, text=True
    )
    said = ended.stdout.splitlines()
    assert (ended.returncode, said) == (0, ["-15", "42", "untold"]), ended.stderr
