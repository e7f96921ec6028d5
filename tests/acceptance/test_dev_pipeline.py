"""`tidegate dev` with real processes: its promises from ready to the last pid gone."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook
from support.at_the_terminal import AtTheTerminal
from support.conditions import PATIENCE_SECONDS, eventually, exit_code
from support.dev_process import READY_SECONDS, Dev, curl, get, start, stop
from support.hook_receiver import HookReceiver, serving
from support.json_output_page import keys_of
from support.onward import Onward

from streams.broker.jars import cache_dir
from streams.broker.ports import pick_free

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
STAGES = ["ingress", "pipeline", "delivery", "worker", "operator"]
pytestmark = pytest.mark.broker


def command_line(pid: int) -> str:
    shown = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
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
    deliver = dev.printed_delivery()
    status, first = curl(deliver)
    again, second = curl(deliver)
    job = eventually(
        lambda: found if (found := dev.printed_job()).get("status") == "succeeded" else None,
        what="the sample job succeeded",
    )
    assert (status, again) == (202, 200)
    assert first["job_id"] == second["job_id"] == job["job_id"]
    assert "printer" in job["result"]["draft"]


def test_an_event_its_job_and_its_effect_have_a_line_each(dev: Dev) -> None:
    deliver = dev.printed_delivery()
    curl(deliver)
    curl(deliver)
    job = eventually(
        lambda: found if "event_id" in (found := dev.printed_job()) else None, what="a job"
    )
    job_id, event_id = job["job_id"], job["event_id"]
    dev.told(f"event        | accepted   {event_id} demo/zendesk ticket.created")
    dev.told(f"event        | duplicate  {event_id} demo/zendesk")
    dev.told(f"job          | started    {job_id} draft_reply")
    dev.told(f"effect       | done       email:send/reply of {job_id}")
    dev.told(f"job          | succeeded  {job_id} draft_reply in ")
    assert not [line for line in dev.errors if dev.token in line]
    assert len([line for line in dev.lines if dev.token in line]) == 1, "printed once"


def test_a_start_fits_a_screen_and_a_pool_has_its_worker(tmp_path: Path) -> None:
    file = tmp_path / "slow.yaml"
    file.write_text("pools: [{name: slow}]\njob_types: [{name: draft_reply, pool: slow}]\n")
    dev = start(tmp_path, "--pool", "slow=1", "--topology", str(file))
    pid = dev.pids["worker-slow-0"]
    shown, told = command_line(pid), len(dev.errors)
    metrics = get(f"{dev.url}/metrics")[1]
    stop(dev)
    of_programs = ("curl", "  -H", "  --data-raw", "See ", "  tidegate jobs show", "Deliver a s")
    own = [line for line in dev.lines if not line.startswith(of_programs)]
    assert "--pool slow" in shown
    assert len(own) + told <= 24
    assert "tidegate_ingress_requests_total{" not in metrics, "dev delivers nothing by itself"


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
        [
            sys.executable,
            "-m",
            "streams.cli",
            "broker",
            "status",
            "--json",
            "--data-dir",
            str(dev.data_dir),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    status = json.loads(told.stdout)
    assert (told.returncode, status["running"]) == (0, True)
    assert (status["pid"], status["bootstrap"]) == (dev.pids["broker"], dev.state["bootstrap"])


def test_a_second_dev_on_the_data_directory_is_refused(dev: Dev) -> None:
    before = dev.pids
    second = subprocess.run(
        [
            sys.executable,
            "-m",
            "streams.cli",
            "dev",
            "--port",
            "0",
            "--data-dir",
            str(dev.data_dir),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
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


def test_commands_print_the_keys_that_the_page_of_json_has(dev: Dev, tmp_path: Path) -> None:
    desk, given = AtTheTerminal(dev.data_dir), "json --tenant keys"
    assert desk.run("tenants set keys").code == 0
    assert desk.run(f"endpoints set {given} --to {dev.url}/nowhere").code == 0
    commands = {
        **dict.fromkeys(
            (
                "dlq list",
                "dlq count",
                "events list",
                "events duplicates",
                "events count",
                "jobs list",
                "jobs held",
                "jobs review",
                "quarantine list",
                "rejections list",
                "replays list",
                "bulk list",
                "sources list",
                "tenants list",
                "deliveries list",
                "broker status",
                "topology plan",
                "doctor",
            ),
            "",
        ),
        "endpoints list": "--tenant keys",
        "endpoints test": given,
        "deliveries recover": f"{given} --since 1h",
        "events export": f"--to {tmp_path / 'exported'} --format jsonl",
    }
    printed = {name: desk.run(f"{name} {more} --json").json for name, more in commands.items()}
    assert {name: set(found) for name, found in printed.items()} == {
        name: set(keys_of(name)) - {"nodes"} for name in commands
    }


def _sends_once_and_twice_again(desk: AtTheTerminal) -> str:
    """Send at once after the source was set; the job's id."""
    sent = desk.run("send --tenant acme --source zendesk --sample ticket.created --times 3 --json")
    assert sent.code == 0, sent
    answers, end = sent.lines[:3], sent.lines[-1]
    assert [each["http_status"] for each in answers] == [202, 200, 200]
    assert {each["job_id"] for each in answers} == {end["job_id"]}
    assert (end["status"], [each["status"] for each in end["effects"]]) == ("succeeded", ["done"])
    return str(end["job_id"])


def _rotates_and_is_refused(desk: AtTheTerminal, first: str) -> None:
    send, secret = "send --tenant acme --source zendesk", desk.data_dir / "a-secret"
    rotated = desk.run("sources rotate zendesk --tenant acme --overlap 24h --generate --json").json
    assert (rotated["secrets"], len(rotated["old_secrets"])) == (2, 1)
    assert rotated["generated_secret"] not in desk.run("sources show zendesk --tenant acme").out
    by_file = f"{send} --secret-file {secret} --no-wait"
    for given in (first, rotated["generated_secret"]):
        secret.write_text(given)
        eventually(lambda: desk.run(by_file).code == 0, what="the ingress knows the secret")
    secret.write_text("another")
    refused = desk.run(f"{send} --secret-file {secret}")
    assert (refused.code, "not that of source zendesk" in refused.err) == (1, True)
    counted = "rejections list --tenant acme --json"
    found = eventually(
        lambda: desk.run(counted).json["rejections"], what="the ingress has counted it"
    )
    assert {(each["source"], each["reason"]) for each in found} == {("zendesk", "unauthorized")}


def _sends_ticket(dev: Dev, tenant: str, source: str) -> None:
    """Set up a source and deliver a ticket to it."""
    dev.api("PUT", f"/v1/tenants/{tenant}", {})
    path = f"/v1/tenants/{tenant}/sources/{source}"
    dev.api("PUT", path, {"scheme": "zendesk", "secret": "s"})
    sent = AtTheTerminal(dev.data_dir).run(
        f"send --tenant {tenant} --source {source} --no-wait --json"
    )
    assert sent.code == 0, sent


@pytest.mark.parametrize("lost", ["answer", "answer and ingress"])
def test_a_message_to_our_own_ingress_makes_one_job_though_its_first_answer_is_lost(
    dev: Dev, lost: str
) -> None:
    """The ingress knows the redelivery by its cache, and dedup knows it once the cache is gone."""
    near, far = ("own", "own") if lost == "answer" else ("near", "far")
    dies = lost == "answer and ingress"
    dev.api("PUT", f"/v1/tenants/{far}", {})
    source = {"scheme": "standard-webhooks", "secret": SECRET}
    dev.api("PUT", f"/v1/tenants/{far}/sources/zendesk", source)
    url = f"{dev.url}/v1/hooks/{far}/zendesk"
    end = partial(os.kill, dev.pids["ingress-0"], signal.SIGKILL) if dies else None
    with serving(Onward(url, end)) as onward:
        _sends_onward(dev, near, onward.url)
        (row,) = eventually(lambda: _delivered(dev, near), what="the message is delivered")
    (job,) = dev.api("GET", f"/v1/jobs?tenant_id={far}")["jobs"]
    path = f"/v1/jobs/{job['job_id']}"
    eventually(lambda: dev.api("GET", path)["status"] == "succeeded", what="its job succeeded")
    assert set(onward.ids) == {row["message_id"]}
    assert onward.taken == [202, 202 if dies else 200]
    assert row["attempt_count"] == len(onward.got) >= 2
    if dies:
        eventually(lambda: dev.api("GET", path)["duplicates"], what="dedup has dropped the second")
    assert len(dev.api("GET", f"/v1/jobs?tenant_id={far}")["jobs"]) == 1


def _sends_onward(dev: Dev, tenant: str, url: str) -> None:
    """Set an endpoint for the events of the source `desk`, and deliver one of them."""
    dev.api("PUT", f"/v1/tenants/{tenant}", {})
    endpoint = {
        "url": url,
        "sources": ["desk"],
        "secret": SECRET,
        "retry": [0.5] * 20,
        "format": "mapped",
        "mapping": "{type: type, detail: data.detail}",
    }
    dev.api("PUT", f"/v1/tenants/{tenant}/endpoints/onward", endpoint)
    _sends_ticket(dev, tenant, "desk")


def _delivered(dev: Dev, tenant: str) -> list[Any]:
    rows = dev.api("GET", f"/v1/deliveries?tenant_id={tenant}&endpoint_id=onward")["deliveries"]
    return rows if [row["status"] for row in rows] == ["delivered"] else []


def test_a_callback_is_signed_tried_again_and_shown_on_its_job(dev: Dev) -> None:
    dev.api("PUT", "/v1/tenants/caller", {})
    endpoint = {"secret": SECRET, "retry": [0.2, 0.2]}
    dev.api("PUT", "/v1/tenants/caller/endpoints/callbacks", endpoint)
    with serving(HookReceiver(503)) as receiver:
        wanted = {"type": "draft_reply", "callback_url": receiver.url}
        job_id = dev.api("POST", "/v1/tenants/caller/jobs", wanted)["job_id"]
        shown = eventually(lambda: _called_back(dev, job_id), what="the callback is delivered")
    assert (shown["kind"], shown["endpoint_id"]) == ("callback", "callbacks")
    assert shown["attempt_count"] == len(receiver.got) == 2
    assert set(receiver.ids) == {shown["message_id"]}
    for headers, body in receiver.got:
        told = Webhook(SECRET).verify(body, headers)
        assert (told["type"], told["data"]["job_id"]) == ("job.failed", job_id)
    out = AtTheTerminal(dev.data_dir).run(f"jobs show {job_id}").out
    assert shown["delivery_id"] in out


def _called_back(dev: Dev, job_id: str) -> Any:
    """The delivery of a job's end as its job shows it, once it is delivered."""
    rows = dev.api("GET", f"/v1/jobs/{job_id}")["deliveries"]
    return rows[0] if [row["status"] for row in rows] == ["delivered"] else None


def test_whatever_is_killed_comes_back_on_the_same_port(dev: Dev) -> None:
    before, ports = dev.pids, [one["port"] for one in dev.state["processes"]]
    for name in [f"{stage}-0" for stage in STAGES]:
        os.kill(before[name], signal.SIGKILL)
    eventually(
        lambda: all(pid and pid != before[n] for n, pid in dev.pids.items() if n[-1] == "0"),
        what="every stage has a new pid",
    )
    eventually(dev.ready, what="everything ready again")
    assert [one["port"] for one in dev.state["processes"]] == ports
    assert dev.pids["broker"] == before["broker"]


def test_while_the_ingress_starts_again_no_connection_is_refused(dev: Dev) -> None:
    """It waits for the new one, which answers 503 until it knows the sources."""
    deliver = dev.printed_delivery()
    os.kill(dev.pids["ingress-0"], signal.SIGKILL)
    assert curl(deliver)[0] in (200, 202, 503)
    eventually(lambda: curl(deliver)[0] in (200, 202), what="a delivery is answered 2xx")


@pytest.mark.chaos
def test_a_request_that_never_becomes_whole_is_cut_off(dev: Dev) -> None:
    host, _, port = dev.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as slow:
        slow.sendall(b"POST /v1/hooks/demo/zendesk HTTP/1.1\r\nHost: x\r\n")
        assert slow.recv(1) == b"", "the connection is closed, 15 s after its beginning"


def test_a_killed_broker_comes_back_and_the_flow_goes_on(dev: Dev) -> None:
    before = dev.pids["broker"]
    bootstrap = dev.state["bootstrap"]
    os.kill(before, signal.SIGKILL)
    eventually(lambda: dev.pids["broker"] not in (None, before), what="a new broker")
    deliver = dev.printed_delivery()
    eventually(lambda: curl(deliver)[0] in (200, 202), what="a delivery is answered 2xx")
    eventually(lambda: dev.printed_job().get("status") == "succeeded", what="its job succeeded")
    assert dev.state["bootstrap"] == bootstrap


SLOW = """
import asyncio
from pathlib import Path
from streams import App, Context

app = App("slow")


@app.job("draft_reply")
async def draft_reply(ctx: Context) -> str:
    await ctx.progress({"pct": 1})
    while not Path("released").exists():
        await asyncio.sleep(0.01)
    return "done"
"""


def test_a_job_that_ends_while_dev_stops_has_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "slow.yaml").write_text(
        "routes:\n  - match: {source: zendesk, event_type: ticket.created}\n    job: draft_reply\n"
    )
    monkeypatch.delenv("TIDEGATE_ADMIN_TOKEN", raising=False)
    data = tmp_path / "data"
    dev = start(data, "--app", "slow:app", "--topology", "slow.yaml", folder=tmp_path)
    submitted = AtTheTerminal(data).run("jobs submit draft_reply --tenant demo --json")
    job_id = submitted.json["job_id"]
    dev.told(job_id, "started")  # or "submitted …, and started"
    dev.process.send_signal(signal.SIGINT)
    dev.told("worker-0 waits up to", job_id)
    (tmp_path / "released").touch()
    assert exit_code(dev.process) == 0
    dev.told("stopped; what it did is kept")
    succeeded = f"job          | succeeded  {job_id}"
    assert [line for line in dev.errors if succeeded in line], "\n".join(dev.errors)


@pytest.mark.chaos
def test_nothing_outlives_a_killed_supervisor_and_the_next_start_finds_all_again(
    tmp_path: Path,
) -> None:
    port = str(pick_free())
    first = start(tmp_path, "--port", port)
    deliver = first.printed_delivery()
    job_id = curl(deliver)[1]["job_id"]
    eventually(lambda: first.printed_job().get("status") == "succeeded", what="the job succeeded")
    pids = first.pids
    first.process.kill()
    first.process.wait()

    second = start(tmp_path, "--port", port, "--apart")
    eventually(
        lambda: not any(map(alive, pids.values())),
        what=f"all of {pids} gone",
    )
    header = {"Authorization": f"Bearer {second.token}"}
    status, text = get(f"{second.url}/v1/jobs/{job_id}", header)
    again = curl(second.printed_delivery())[0]
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
        ("quits:app", "its import ends the interpreter"),
    ],
)
def test_an_app_that_cannot_be_loaded_ends_dev_before_anything_is_started(
    tmp_path: Path, app: str, told: str
) -> None:
    (tmp_path / "desk.py").write_text("from streams import App\napp = App('desk')\n")
    (tmp_path / "broken.py").write_text("app = 1 / 0\n")
    (tmp_path / "abort.py").write_text("import os\nos.abort()\n")
    (tmp_path / "quits.py").write_text("import os\nos._exit(0)\n")
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "streams.cli",
            "dev",
            "--port",
            "0",
            "--data-dir",
            "data",
            "--app",
            app,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=READY_SECONDS,
        cwd=tmp_path,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ")
    assert told in ended.stderr.splitlines()[0]
    assert not (tmp_path / "data").exists()


def test_brokers_that_do_not_answer_end_dev_with_their_error_alone(tmp_path: Path) -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "streams.cli",
            "dev",
            "--port",
            "0",
            "--data-dir",
            "data",
            "--bootstrap",
            "127.0.0.1:1",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=READY_SECONDS,
        cwd=tmp_path,
    )
    assert ended.returncode == 1
    assert "no Kafka broker answers" in ended.stderr.splitlines()[-1]
    assert "Kafka answers at" not in ended.stdout + ended.stderr


def test_it_runs_in_a_place_whose_name_only_utf8_has_under_a_strict_environment(
    tmp_path: Path,
) -> None:
    """Java would take names of files in its locale's encoding, and splits its path at colons."""
    here = tmp_path / "café"
    cache = tmp_path / "a:b"
    here.mkdir()
    shutil.copytree(cache_dir(), cache / cache_dir().name, copy_function=os.link)
    strict = {"LC_ALL": "C", "PYTHONWARNINGS": "error", "TIDEGATE_CACHE": str(cache)}
    running = start(here / "data", folder=here, environment=strict)
    try:
        assert running.pids.keys() == {*(f"{stage}-0" for stage in STAGES), "broker", "dev"}
        assert not any("ended with exit code" in line for line in running.errors)
    finally:
        assert stop(running) == 0


def test_the_doctor_looks_at_the_topology_that_dev_runs_with(dev: Dev) -> None:
    """It looked at the built-in one, and advised to delete the topics of a pool in use."""
    there = dev.data_dir
    command = [sys.executable, "-m", "streams.cli", "doctor", "--json", "--data-dir", str(there)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    findings = json.loads(told.stdout)["findings"]
    (topology,) = (each for each in findings if each["check"] == "topology")
    assert topology["text"].endswith("1 route"), "that of the sample"
    assert [each for each in findings if each["area"] == "topics" and each["status"] != "ok"] == []
    assert dev.state["command"][:2] == ["dev", "--port"]
