"""The processes of one peer while it is measured: what they spend, their end, their next start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.request import urlopen

from jobs_run import Seconds, Stalled, family, family_seconds

from peers.contract import Part, Peer, Place, Role

Process = subprocess.Popen[bytes]
START_SECONDS = 90.0
STOP_SECONDS = 20.0


@contextmanager
def running(peer: Peer, place: Place) -> Iterator[Running]:
    """All parts of a peer, ready; they end with the block, the last one first."""
    system = Running(place)
    try:
        for part in peer.parts(place):
            system.start(part)
        yield system
    except BaseException:
        system.show_logs()
        raise
    finally:
        system.stop()


@dataclass
class Running:
    """Every part, and the process that it is now."""

    place: Place
    parts: dict[str, Part] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)

    def start(self, part: Part) -> None:
        """Start a part, also anew, and return once it is ready.

        Raises:
            Stalled: it ended, or was not ready in time.
        """
        self.begin(part)
        deadline = time.monotonic() + START_SECONDS
        while not part.ready():
            self.check(part.name)
            if time.monotonic() > deadline:
                raise Stalled(f"{part.name} was not ready after {START_SECONDS:.0f} s")
            time.sleep(0.05)

    def begin(self, part: Part) -> None:
        """Start a part's process, in a group of its own with all that it starts itself."""
        owner = part.owner
        with (self.place.folder / f"{part.name}.log").open("ab") as log:
            self.processes[part.name] = subprocess.Popen(
                part.command,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.place.env, **part.env},
                start_new_session=True,
                user=owner.pw_uid if owner else None,
                group=owner.pw_gid if owner else None,
                extra_groups=[] if owner else None,
            )
        self.parts[part.name] = part

    def of(self, role: Role) -> list[Part]:
        """The parts that have a role."""
        return [part for part in self.parts.values() if part.role == role]

    def kill(self, part: Part) -> None:
        """Send SIGKILL to a part and to everything that it started, the youngest first."""
        process = self.processes[part.name]
        for pid in sorted(family(process.pid), reverse=True):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def restart(self, role: Role) -> None:
        """Kill the parts that have a role, and start them again, ready."""
        for part in self.of(role):
            self.kill(part)
            self.start(part)

    def runs(self, part: Part) -> bool:
        """Whether a part's process has not ended."""
        return self.processes[part.name].poll() is None

    def check(self, *names: str) -> None:
        """Return if these parts run, all of them without a name.

        Raises:
            Stalled: one ended.
        """
        for name in names or self.processes:
            if (code := self.processes[name].poll()) is not None:
                raise Stalled(f"{name} ended with exit code {code}")

    def spent(self) -> Seconds:
        """Processor time of each part so far."""
        return {name: family_seconds(process.pid) for name, process in self.processes.items()}

    def resident(self) -> dict[str, float]:
        """MiB of each part, where processes share a page in equal parts (`Pss`, proc(5))."""
        return {n: sum(map(_resident, family(p.pid))) for n, p in self.processes.items()}

    def unfinished(self) -> Mapping[str, str]:
        """The jobs that have not ended, each with its state, by the peer's own account.

        Raises:
            Stalled: it does not answer.
        """
        own = (part.unfinished for part in self.parts.values() if part.unfinished)
        try:
            return next(own, self._unfinished)()
        except OSError as error:
            raise Stalled(f"nobody says what has not ended: {error}") from error

    def _unfinished(self) -> dict[str, str]:
        with urlopen(f"http://127.0.0.1:{self.place.port}/unfinished", timeout=30) as answer:
            named: list[str] = json.load(answer)["unfinished"]
        return dict.fromkeys(named, "unfinished")

    def show_logs(self) -> None:
        """The end of each part's log, for whoever mends the peer."""
        for name in self.processes:
            text = (self.place.folder / f"{name}.log").read_text(errors="replace")
            sys.stderr.write(f"--- {name}\n{text[-2_000:]}\n")

    def stop(self) -> None:
        """End all parts in an orderly way, or by force."""
        for name, process in reversed(self.processes.items()):
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill(self.parts[name])


def _resident(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    except (OSError, StopIteration):  # it has ended meanwhile
        return 0.0
