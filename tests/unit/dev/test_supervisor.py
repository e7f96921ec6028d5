"""The supervisor with tiny programs for children."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.conditions import PATIENCE_SECONDS

from streams.broker.ports import pick_free
from streams.dev import supervisor as module
from streams.dev.output import Output
from streams.dev.process import ProcessSpec, describe_end
from streams.dev.supervisor import Supervisor, pause_after
from streams.errors import ConfigError

SERVER = """
import http.server, signal, subprocess, sys
port, on_term = int(sys.argv[1]), sys.argv[2]
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
def ended(*_):
    print("asked to end", flush=True)
    if on_term == "ends": sys.exit(0)
signal.signal(signal.SIGTERM, ended)
if on_term == "has-child":
    print("child", subprocess.Popen(["sleep", "600"]).pid, flush=True)
print("serving", flush=True)
http.server.HTTPServer(("127.0.0.1", port), Ready).serve_forever()
"""
LEAVES = """
import os, signal, subprocess
left = subprocess.Popen(["sleep", "600"], start_new_session=True)
print("left", left.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


class Lines:
    """What was written, and the wait for it."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._more = asyncio.Event()

    def __call__(self, text: str) -> None:
        self.all.append(text)
        self._more.set()

    async def until(self, part: str, count: int = 1) -> str:
        """The `count`th line that has `part`."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(found := [line for line in self.all if part in line]) < count:
                self._more.clear()
                await self._more.wait()
        return found[count - 1]


def program(name: str, source: str, *arguments: str, ready_port: int = 1) -> ProcessSpec:
    argv = (sys.executable, "-c", source, *arguments)
    return ProcessSpec(name, argv, dict(os.environ), f"http://127.0.0.1:{ready_port}/readyz")


def server(name: str, on_term: str = "ends") -> ProcessSpec:
    port = pick_free()
    return program(name, SERVER, str(port), on_term, ready_port=port)


@asynccontextmanager
async def running(
    tmp_path: Path, *waves: list[ProcessSpec], grace: float = 20.0
) -> AsyncIterator[tuple[Supervisor, Lines]]:
    lines = Lines()
    supervisor = Supervisor(
        waves, Output(tmp_path / "logs", lines), grace_seconds=grace, progress=lines
    )
    supervisor.start()
    try:
        yield supervisor, lines
    finally:
        await supervisor.stop()


async def gone(pid: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while alive(pid):
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


async def test_is_ready_once_every_child_answers(tmp_path: Path) -> None:
    async with running(tmp_path, [server("a"), server("b")]) as (supervisor, _):
        await asyncio.wait_for(supervisor.ready(), PATIENCE_SECONDS)
        assert set(supervisor.pids) == {"a", "b"}


async def test_a_restart_asks_the_child_to_end_and_returns_when_its_successor_is_ready(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, [server("a"), server("b")]) as (supervisor, lines):
        await asyncio.wait_for(supervisor.ready(), PATIENCE_SECONDS)
        before = supervisor.pids
        await asyncio.wait_for(supervisor.restart(["a"]), PATIENCE_SECONDS)
        after = supervisor.pids
        assert after["a"] != before["a"]
        assert after["b"] == before["b"]
        asked = [line for line in lines.all if "asked to end" in line]
        assert [line.split()[0] for line in asked] == ["a"]
        assert not [line for line in lines.all if "starting it again" in line], "it was no fault"


async def test_a_restart_wakes_a_child_that_waits_to_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "pause_after", lambda failures: 3_600.0)
    broken = tmp_path / "broken"
    broken.touch()
    port = pick_free()
    source = f"import os, sys\nif os.path.exists({str(broken)!r}): sys.exit(1)\n{SERVER}"
    spec = program("a", source, str(port), "ends", ready_port=port)
    async with running(tmp_path, [spec]) as (supervisor, lines):
        await lines.until("starting it again")
        broken.unlink()
        await asyncio.wait_for(supervisor.restart(["a"]), PATIENCE_SECONDS)
        assert set(supervisor.pids) == {"a"}


async def test_restarts_what_dies_and_says_how_it_died(tmp_path: Path) -> None:
    async with running(tmp_path, [server("a")]) as (supervisor, lines):
        await asyncio.wait_for(supervisor.ready(), PATIENCE_SECONDS)
        first = supervisor.pids["a"]
        os.kill(first, signal.SIGKILL)
        said = await lines.until("starting it again")
        await lines.until("serving", 2)
        assert "a was ended by SIGKILL; starting it again in 0.1 s" in said
        assert supervisor.pids["a"] != first


async def test_short_lives_are_restarted_ever_later(tmp_path: Path) -> None:
    async with running(tmp_path, [program("a", "raise SystemExit(7)")]) as (_, lines):
        third = await lines.until("starting it again", 3)
        assert "a ended with exit code 7; starting it again in 0.4 s" in third


def test_the_pause_doubles_up_to_five_seconds() -> None:
    assert [pause_after(failures) for failures in (0, 1, 2, 5, 6, 60)] == [0.1, 0.2, 0.4, 3.2, 5, 5]


async def test_a_long_life_forgets_earlier_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SOUND_AFTER_SECONDS", 0.0)
    async with running(tmp_path, [program("a", "raise SystemExit(7)")]) as (_, lines):
        assert "in 0.1 s" in await lines.until("starting it again", 3)


async def test_a_program_that_does_not_exist_is_told_and_tried_again(tmp_path: Path) -> None:
    spec = ProcessSpec("a", (str(tmp_path / "nothing"),), {}, "http://127.0.0.1:1/readyz")
    async with running(tmp_path, [spec]) as (_, lines):
        assert "a cannot be started" in await lines.until("starting it again", 2)


async def test_a_child_that_refuses_its_configuration_ends_the_start(tmp_path: Path) -> None:
    spec = program("a", "print('error: no such app'); raise SystemExit(2)")
    async with running(tmp_path, [spec]) as (supervisor, lines):
        with pytest.raises(ConfigError, match="a cannot start"):
            await asyncio.wait_for(supervisor.ready(), PATIENCE_SECONDS)
        assert any("error: no such app" in line for line in lines.all)


async def test_stops_wave_after_wave(tmp_path: Path) -> None:
    async with running(tmp_path, [server("first")], [server("second")]) as (supervisor, lines):
        await asyncio.wait_for(supervisor.ready(), PATIENCE_SECONDS)
    asked = [line.split()[0] for line in lines.all if "asked to end" in line]
    assert asked == ["first", "second"]
    told = [line for line in lines.all if line.startswith("stopping ")]
    assert told == ["stopping first", "stopping second"]
    assert supervisor.pids == {}


async def test_who_does_not_end_in_time_is_killed(tmp_path: Path) -> None:
    async with running(tmp_path, [server("deaf", "ignores")], grace=0.3) as (supervisor, lines):
        await asyncio.wait_for(supervisor.ready(), PATIENCE_SECONDS)
        pid = supervisor.pids["deaf"]
    assert any("deaf did not end in time: killing it" in line for line in lines.all)
    assert not alive(pid)


async def test_a_deaf_wave_leaves_time_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_KEPT_BACK_SECONDS", 20.0)
    waves = [server("deaf", "ignores")], [server("next")]
    async with running(tmp_path, *waves, grace=20.3) as (supervisor, lines):
        await asyncio.wait_for(supervisor.ready(), PATIENCE_SECONDS)
    assert any("next" in line and "asked to end" in line for line in lines.all)
    assert not any("next did not end in time" in line for line in lines.all)


async def test_what_a_dead_child_had_started_dies_too(tmp_path: Path) -> None:
    async with running(tmp_path, [server("a", "has-child")]) as (supervisor, lines):
        grandchild = int((await lines.until("child ")).rsplit(" ", 1)[1])
        await lines.until("serving")
        os.kill(supervisor.pids["a"], signal.SIGKILL)
        await gone(grandchild)
        assert not alive(grandchild)


async def test_a_process_that_left_its_group_does_not_keep_its_starter_from_a_new_start(
    tmp_path: Path,
) -> None:
    """It holds the pipe of the output open. The supervisor waited for the end of that pipe."""
    leaves = program("leaves", LEAVES)
    async with running(tmp_path, [leaves]) as (_, lines):
        left = int((await lines.until("left")).rpartition(" ")[2])
        try:
            await lines.until("leaves was ended by SIGKILL")
            await lines.until("left", 2)
        finally:
            os.kill(left, signal.SIGKILL)


async def test_stop_ends_a_pause_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No wait below lasts so long, and a failure does not hang for ever.
    for constant in ("FIRST_PAUSE_SECONDS", "LONGEST_PAUSE_SECONDS"):
        monkeypatch.setattr(module, constant, 3 * PATIENCE_SECONDS)
    async with running(tmp_path, [program("a", "raise SystemExit(7)")]) as (supervisor, lines):
        await lines.until(f"starting it again in {3 * PATIENCE_SECONDS:g} s")
        await asyncio.wait_for(supervisor.stop(), PATIENCE_SECONDS)
        assert supervisor.pids == {}


async def test_a_second_stop_does_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, [server("a")], [server("b")]) as (supervisor, lines):
        await asyncio.wait_for(supervisor.ready(), PATIENCE_SECONDS)
        await supervisor.stop()
    stops = [line for line in lines.all if line.startswith("stopping")]
    assert stops == ["stopping a", "stopping b"]


async def test_every_start_and_end_is_announced(tmp_path: Path) -> None:
    seen: list[int] = []
    lines = Lines()
    supervisor = Supervisor(
        [[server("a")]],
        Output(tmp_path, lines),
        changed=lambda: seen.append(len(supervisor.pids)),
    )
    supervisor.start()
    await asyncio.wait_for(supervisor.ready(), PATIENCE_SECONDS)
    await supervisor.stop()
    assert seen == [1, 0]


def test_an_end_is_told_in_words() -> None:
    assert describe_end(3) == "ended with exit code 3"
    assert describe_end(-signal.SIGSEGV) == "was ended by SIGSEGV"
    assert describe_end(-250) == "was ended by signal 250"


ORPHANS = """
import asyncio, os, sys
from pathlib import Path
from streams.dev.output import Output
from streams.dev.process import ProcessSpec
from streams.dev.supervisor import Supervisor
CHILD = '''
import signal, sys, threading
from streams.dev import parent
parent.LAST_WORDS_SECONDS = 0.3
signal.signal(signal.SIGTERM, signal.SIG_IGN)
parent.end_with_parent()
threading.Event().wait()
'''
async def main():
    spec = ProcessSpec("deaf", (sys.executable, "-c", CHILD), dict(os.environ), "http://127.0.0.1:1")
    supervisor = Supervisor([[spec]], Output(Path(sys.argv[1]), None),
                            changed=lambda: print(supervisor.pids, flush=True))
    supervisor.start()
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_a_killed_supervisor_leaves_no_child_behind_even_a_deaf_one(tmp_path: Path) -> None:
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ORPHANS, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert supervisor.stdout
    line = await asyncio.wait_for(supervisor.stdout.readline(), PATIENCE_SECONDS)
    child = int(line.decode().split(":")[1].strip(" }\n"))
    assert alive(child)
    supervisor.kill()
    await supervisor.wait()
    await gone(child)
    assert not alive(child)
