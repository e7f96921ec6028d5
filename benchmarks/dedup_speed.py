"""How fast a dedup stage works, taken from outside and for all in the same way: the input offsets
that its consumer group has committed, and what /proc tells of its processes meanwhile."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pwd import struct_passwd
from typing import Any, Protocol

Process = subprocess.Popen[bytes]
_SILENCE_SECONDS = 60
_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
_MIB = 1024


class Progress(Protocol):
    """How many events are done; each call asks anew."""

    def total(self) -> int: ...


class Stalled(Exception):
    """A stage ended, or committed nothing for a minute, before it was through."""


@dataclass(frozen=True)
class Speed:
    """Between the first commit seen and the last: events a second, and microseconds of processor
    time for each; then the peak of the resident memory in MiB."""

    rate: float
    cpu_us: float
    peak_mib: float


@dataclass(frozen=True)
class _Mark:
    at: float
    done: int
    cpu: float


@contextmanager
def running(
    command: Sequence[str],
    log: Path,
    env: Mapping[str, str] | None = None,
    owner: struct_passwd | None = None,
) -> Iterator[Process]:
    """A process that ends with the block; the end of its log is shown if the block fails.

    It runs as `owner` where one is given, which takes root.
    """
    rights: dict[str, Any] = (
        {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner else {}
    )
    with (
        log.open("ab") as out,
        subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **(env or {})}, **rights
        ) as process,
    ):
        try:
            yield process
        except BaseException:
            sys.stderr.write(log.read_text(errors="replace")[-3_000:])
            raise
        finally:
            stop(process)


def stop(process: Process) -> None:
    """In an orderly way, or by force after half a minute."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def measure(
    offsets: Progress, processes: Sequence[Process], events: int, deadline: float = math.inf
) -> Speed:
    """Return once all events are committed, or at a deadline of `time.perf_counter`.

    Raises:
        Stalled: they never were, or all at once, so that there is no time between two commits.
    """
    marks = _progress(offsets, processes)
    first = last = next(marks)
    while last.done < events and last.at < deadline:
        last = next(marks)
    done = last.done - first.done
    if not done:
        raise Stalled("everything was committed at once: give it more --events")
    peak = sum(memory_mib(p, "VmHWM") for p in processes)
    return Speed(done / (last.at - first.at), (last.cpu - first.cpu) / done * 1e6, peak)


def _progress(offsets: Progress, processes: Sequence[Process]) -> Iterator[_Mark]:
    """A mark for each commit seen, from the first on."""
    before, moved = 0, time.perf_counter()
    while True:
        done, at = offsets.total(), time.perf_counter()
        for process in processes:
            if process.poll() is not None:
                raise Stalled(f"it ended with exit code {process.returncode} after {done} events")
        if done > before:
            before, moved = done, at
            yield _Mark(at, done, sum(processor_seconds(p) for p in processes))
        elif at - moved > _SILENCE_SECONDS:
            raise Stalled(f"it stood still after {done} events")
        time.sleep(0.05)


def processor_seconds(process: Process) -> float:
    """User and system time of all its threads so far (proc(5))."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_SECONDS


def memory_mib(process: Process, name: str) -> float:
    """`VmRSS`, resident now, or `VmHWM`, the most it ever was, in MiB (proc(5))."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / _MIB
    return 0.0
