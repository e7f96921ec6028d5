"""`tidegate dev` with real processes: its promises from ready to the last pid gone."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from support.at_the_terminal import AtTheTerminal
from support.conditions import eventually

from streams.broker.ports import pick_free

READY_SECONDS = 90.0
GONE_SECONDS = 25.0  # the JVM's reaper gives the JVM 20 s to stop before it kills it
STAGES = ["ingress", "pipeline", "worker", "operator"]
pytestmark = pytest.mark.broker


@dataclass
class Dev:
    """One run of `tidegate dev` on a data directory."""

    data_dir: Path
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    @property
    def state(self) -> dict[str, Any]:
        return dict(json.loads((self.data_dir / "dev.json").read_text()))

    @property
    def pids(self) -> dict[str, int]:
        """By process name, the broker's and the supervisor's own too."""
        state = self.state
        pids = {one["name"]: one["pid"] for one in state["processes"]}
        return {**pids, "broker": state["broker_pid"], "dev": state["pid"]}

    @property
    def url(self) -> str:
        return self.line("tidegate ready ").removeprefix("tidegate ready ")

    @property
    def token(self) -> str:
        return self.line("admin token: ").removeprefix("admin token: ")

    def line(self, start: str) -> str:
        return next((line for line in self.lines if line.startswith(start)), "")

    def printed_curls(self) -> list[str]:
        text = "\n".join(self.lines).replace("\\\n", " ")
        return [line for line in text.splitlines() if line.startswith("curl ")]

    def ready(self) -> bool:
        try:
            return get(f"{self.url}/readyz")[0] == 200
        except OSError:
            return False


def start(data_dir: Path, *arguments: str) -> Dev:
    """Start it and return once it says that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "streams.cli", "dev", "--port", "0", "--data-dir", str(data_dir),
         *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    dev = Dev(data_dir, process)
    Thread(target=_collect, args=(dev,), daemon=True).start()
    eventually(
        lambda: dev.line("Ctrl-C") or process.poll() is not None, READY_SECONDS, what="dev ready"
    )
    assert process.poll() is None, "dev ended before it was ready"
    return dev


def _collect(dev: Dev) -> None:
    assert dev.process.stdout
    for line in dev.process.stdout:
        dev.lines.append(line.rstrip("\n"))


def stop(dev: Dev, number: signal.Signals = signal.SIGINT) -> int:
    if dev.process.poll() is None:
        dev.process.send_signal(number)
    return dev.process.wait(60)


def curl(command: str) -> tuple[int, dict[str, Any]]:
    """Do what a printed curl command would, by the shell's own rules of quoting."""
    words = shlex.split(command)[1:]
    headers: dict[str, str] = {}
    url, body = "", None
    while words:
        word = words.pop(0)
        if word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word == "--data-raw":
            body = words.pop(0).encode()
        elif not word.startswith("-"):
            url = word
    status, text = get(url, headers, body)
    return status, json.loads(text)


def get(
    url: str, headers: dict[str, str] | None = None, body: bytes | None = None
) -> tuple[int, str]:
    request = urllib.request.Request(url, body, headers or {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def command_line(pid: int) -> str:
    shown = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return shown.stdout.strip()


def alive(pid: int) -> bool:
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return bool(state) and not state.startswith("Z")


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    running = start(tmp_path_factory.mktemp("dev"))
    yield running
    stop(running)


def test_the_printed_commands_work_and_a_redelivery_makes_no_second_job(dev: Dev) -> None:
    deliver, show = dev.printed_curls()
    status, first = curl(deliver)
    again, second = curl(deliver)
    job = eventually(
        lambda: found if (found := curl(show)[1]).get("status") == "succeeded" else None,
        what="the sample job succeeded",
    )
    assert (status, again) == (202, 200)
    assert first["job_id"] == second["job_id"] == job["job_id"]
    assert "printer" in job["result"]["draft"]


def test_each_stage_is_a_process_that_ps_shows_by_name_and_without_secrets(dev: Dev) -> None:
    shown = {name: command_line(pid) for name, pid in dev.pids.items()}
    for stage in STAGES:
        assert f"tidegate {stage} " in shown[f"{stage}-0"]
        pid = dev.pids[f"{stage}-0"]
        assert os.getsid(pid) == pid, "Linux shares the cores between sessions"
    assert dev.token
    assert not [line for line in shown.values() if dev.token in line]


def test_the_broker_of_dev_answers_broker_status(dev: Dev) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "streams.cli", "broker", "status", "--json",
         "--data-dir", str(dev.data_dir)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    status = json.loads(told.stdout)
    assert (told.returncode, status["running"]) == (0, True)
    assert (status["pid"], status["bootstrap"]) == (dev.pids["broker"], dev.state["bootstrap"])


def test_a_second_dev_on_the_data_directory_is_refused(dev: Dev) -> None:
    before = dev.pids
    second = subprocess.run(
        [sys.executable, "-m", "streams.cli", "dev", "--port", "0",
         "--data-dir", str(dev.data_dir)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert second.returncode == 2
    assert f"another pipeline runs on the data directory {dev.data_dir}" in second.stderr
    assert "Traceback" not in second.stderr
    eventually(dev.ready, what="the first is ready as before")
    assert dev.pids == before


def test_one_port_serves_metrics_of_every_process(dev: Dev) -> None:
    wanted = {f'tidegate_up{{instance="0",stage="{stage}"}} 1.0' for stage in STAGES}

    def all_up() -> bool:
        return wanted <= set(get(f"{dev.url}/metrics")[1].splitlines())

    eventually(all_up, what="every stage is up on the page")


def test_the_operators_api_wants_the_token(dev: Dev) -> None:
    without = get(f"{dev.url}/v1/jobs")[0]
    given = get(f"{dev.url}/v1/jobs", {"Authorization": f"Bearer {dev.token}"})[0]
    assert (without, given) == (401, 200)


def test_commands_alone_set_up_a_tenant_send_submit_rotate_and_find_rejections(
    dev: Dev, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEGATE_ADMIN_TOKEN", raising=False)
    desk, first = AtTheTerminal(dev.data_dir), "the first secret"
    assert desk.run("tenants set acme --display-name Acme --rate 600/60s").code == 0
    kept = desk.run("tenants set acme --display-name Desk --json").json
    assert (kept["display_name"], kept["rate"]) == ("Desk", {"count": 600, "seconds": 60.0})
    made = desk.run(
        "sources set zendesk --tenant acme --scheme zendesk --secret-file - --json", first
    )
    assert made.json["hook_url"] == f"{dev.url}/v1/hooks/acme/zendesk"
    sent = _sends_once_and_twice_again(desk)
    submit = "jobs submit draft_reply --tenant acme --key k --delay 1s --watch --json"
    submitted, again = desk.run(submit), desk.run(submit)
    end = submitted.lines[-1]
    assert submitted.code == again.code == {"succeeded": 0, "failed": 3}[end["status"]]
    listed = desk.run("jobs list --tenant acme --json").json["jobs"]
    assert {job["job_id"] for job in listed} == {sent, end["job_id"], again.lines[-1]["job_id"]}
    assert len(listed) == 2
    assert first not in made.out + made.err
    _rotates_and_is_refused(desk, first)


def _sends_once_and_twice_again(desk: AtTheTerminal) -> str:
    """Send at once after the source was set; the job's id."""
    sent = desk.run("send --tenant acme --source zendesk --sample ticket.created --times 3 --json")
    assert sent.code == 0, sent
    answers, end = sent.lines[:3], sent.lines[-1]
    assert [each["status"] for each in answers] == [202, 200, 200]
    assert {each["answer"]["job_id"] for each in answers} == {end["job_id"]}
    assert (end["status"], [each["status"] for each in end["effects"]]) == ("succeeded", ["done"])
    return str(end["job_id"])


def _rotates_and_is_refused(desk: AtTheTerminal, first: str) -> None:
    send, secret = "send --tenant acme --source zendesk", desk.data_dir / "a-secret"
    rotated = desk.run("sources rotate zendesk --tenant acme --overlap 24h --generate --json").json
    assert (rotated["secrets"], len(rotated["old_secrets"])) == (2, 1)
    assert rotated["generated_secret"] not in desk.run("sources show zendesk --tenant acme").out
    for given in (first, rotated["generated_secret"]):
        secret.write_text(given)
        assert desk.run(f"{send} --secret-file {secret} --no-wait").code == 0
    secret.write_text("another")
    refused = desk.run(f"{send} --secret-file {secret}")
    assert (refused.code, "not that of source zendesk" in refused.err) == (1, True)
    counted = "rejections list --tenant acme --json"
    found = eventually(
        lambda: desk.run(counted).json["rejections"], 30, what="the ingress has counted it"
    )
    assert {(each["source"], each["reason"]) for each in found} == {("zendesk", "unauthorized")}


def test_whatever_is_killed_comes_back_on_the_same_port(dev: Dev) -> None:
    before, ports = dev.pids, [one["port"] for one in dev.state["processes"]]
    for name in [f"{stage}-0" for stage in STAGES]:
        os.kill(before[name], signal.SIGKILL)
    eventually(
        lambda: all(pid and pid != before[n] for n, pid in dev.pids.items() if n[-1] == "0"),
        30, what="every stage has a new pid",
    )  # fmt: skip
    eventually(dev.ready, 60, what="everything ready again")
    assert [one["port"] for one in dev.state["processes"]] == ports
    assert dev.pids["broker"] == before["broker"]


def test_while_the_ingress_starts_again_no_connection_is_refused(dev: Dev) -> None:
    """It waits for the new one, which answers 503 until it knows the sources."""
    deliver, _ = dev.printed_curls()
    os.kill(dev.pids["ingress-0"], signal.SIGKILL)
    assert curl(deliver)[0] in (200, 202, 503)
    eventually(lambda: curl(deliver)[0] in (200, 202), what="a delivery is answered 2xx")


@pytest.mark.chaos
def test_a_request_that_never_becomes_whole_is_cut_off(dev: Dev) -> None:
    host, _, port = dev.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as slow:
        slow.sendall(b"POST /v1/hooks/demo/zendesk HTTP/1.1\r\nHost: x\r\n")
        assert slow.recv(1) == b"", "the connection is closed, 15 s after its beginning"


def test_a_killed_broker_comes_back_and_the_flow_goes_on(dev: Dev) -> None:
    before = dev.pids["broker"]
    bootstrap = dev.state["bootstrap"]
    os.kill(before, signal.SIGKILL)
    eventually(lambda: dev.pids["broker"] not in (None, before), 60, what="a new broker")
    deliver, show = dev.printed_curls()
    eventually(lambda: curl(deliver)[0] in (200, 202), 60, what="a delivery is answered 2xx")
    eventually(lambda: curl(show)[1].get("status") == "succeeded", 60, what="its job succeeded")
    assert dev.state["bootstrap"] == bootstrap


def test_nothing_outlives_a_killed_supervisor_and_the_next_start_finds_all_again(
    tmp_path: Path,
) -> None:
    port = str(pick_free())
    first = start(tmp_path, "--port", port)
    deliver, show = first.printed_curls()
    job_id = curl(deliver)[1]["job_id"]
    eventually(lambda: curl(show)[1].get("status") == "succeeded", 30, what="the job succeeded")
    pids = first.pids
    first.process.kill()
    first.process.wait()

    second = start(tmp_path, "--port", port, "--apart")
    eventually(
        lambda: not any(map(alive, pids.values())), GONE_SECONDS,
        what=f"all of {pids} gone",
    )  # fmt: skip
    header = {"Authorization": f"Bearer {second.token}"}
    status, text = get(f"{second.url}/v1/jobs/{job_id}", header)
    again = curl(second.printed_curls()[0])[0]
    pids = second.pids
    code = stop(second)
    assert (status, json.loads(text)["status"]) == (200, "succeeded")
    assert again == 202
    assert {"dedup-0", "scheduler-0", "dispatcher-0"} < pids.keys(), "its stages run apart"
    assert second.token == first.token
    assert code == 0
    assert not any(map(alive, pids.values()))
    assert not (tmp_path / "dev.json").exists()


@pytest.mark.parametrize(
    ("app", "told"),
    [
        ("none:app", "no module 'none'"),
        ("desk:none", "module desk has no 'none'"),
        ("broken:app", "broken cannot be imported: ZeroDivisionError"),
        ("abort:app", "was ended by SIGABRT"),
    ],
)
def test_an_app_that_cannot_be_loaded_ends_dev_before_anything_is_started(
    tmp_path: Path, app: str, told: str
) -> None:
    (tmp_path / "desk.py").write_text("from streams import App\napp = App('desk')\n")
    (tmp_path / "broken.py").write_text("app = 1 / 0\n")
    (tmp_path / "abort.py").write_text("import os\nos.abort()\n")
    ended = subprocess.run(
        [sys.executable, "-m", "streams.cli", "dev", "--port", "0", "--data-dir", "data",
         "--app", app],
        capture_output=True, text=True, check=False, timeout=READY_SECONDS, cwd=tmp_path,
    )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ")
    assert told in ended.stderr.splitlines()[0]
    assert not (tmp_path / "data").exists()
