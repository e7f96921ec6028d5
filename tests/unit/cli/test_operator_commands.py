"""`tidegate jobs`, `dlq`, `quarantine`, `events` against an API that records what it is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.operator_cluster import make_job, make_quarantined
from typer.testing import CliRunner, Result

from ingress.receive.admission import DirectAdmission
from streams.cli.dlq import dlq
from streams.cli.events import events
from streams.cli.jobs import jobs
from streams.cli.quarantine import quarantine
from streams.errors import ConfigError
from streams.operator.resources.dead_letters import dead_letter_json
from streams.operator.resources.duplicates import duplicate_json
from streams.operator.resources.held import held_json
from streams.operator.resources.job_view import JobDetails, job_json
from streams.operator.resources.quarantine import quarantined_json
from streams.operator.run import build
from streams.serde.records import Attempt, DeadLetter, Duplicate, Held, PayloadRef
from streams.settings import load_settings
from streams.topology.load import load

JOB = job_json(
    make_job("job_a", last_error="[bold]\x1b[31mTimeoutError"),
    JobDetails(steps=(("draft", '"Hi"'),)),
)
LETTER = dead_letter_json(
    DeadLetter("job_a", "job", "acme", "attempts_exhausted", "slow", "dispatcher", 1)
)

KEPT = json.loads(
    json.dumps(
        quarantined_json(
            replace(make_quarantined(b"{}", PayloadRef(0, (0,), 2, "kek")), job_id="job_a")
        )
    )
)
AGAIN = duplicate_json("0b" * 16, Duplicate("acme", 3, 1, 2, "evt_job_a"))


HELD = held_json(Held(0, "default", "draft_reply", "job_a", "tenant_disabled", 1, 3, "enable it"))
RECORD = dead_letter_json(
    DeadLetter("dispatcher:events:1:7", "record", "", "output_refused", "job_a", "dispatcher", 1)
) | {"sent": {"topic": "events", "partition": 1, "timestamp": None, "timestamp_of": "replay"}}
SENT = {
    "dry_run": True, "matched": 9, "replayed": 0, "replayable": 8, "next_cursor": None,
    "left_out": [{"id": "dispatcher:job_a:1:7", "reason": "not-replayable", "detail": "cut"}],
}  # fmt: skip


class Api:
    """Answers every request with `answer`, keeps (method, path, headers, body)."""

    def __init__(self) -> None:
        self.status, self.answer = 200, {}
        self.raw = b""
        self.answers: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = json.loads(raw) if raw else None
                outer.asked.append((self.command, self.path, dict(self.headers), body))
                answer = outer.answers.pop(0) if outer.answers else outer.answer
                self.send_response(outer.status)
                self.end_headers()
                self.wfile.write(outer.raw or json.dumps(answer).encode())

            do_GET = do_POST = answer

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    answer: dict[str, Any]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setenv("TIDEGATE_ADMIN_TOKEN", "a-token")
    monkeypatch.setenv("COLUMNS", "200")
    found = Api()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def invoke(api: Api, group: Any, *arguments: str) -> Result:
    return CliRunner().invoke(group, [*arguments, "--url", api.url])


CALLS = [
    (jobs, ["show", "job_a"], JOB, ("GET", "/v1/jobs/job_a", None)),
    (
        jobs,
        ["list", "--tenant", "acme", "--status", "dead", "--type", "t", "--limit", "5"],
        {"jobs": [JOB], "next_cursor": "abc"},
        ("GET", "/v1/jobs?tenant_id=acme&status=dead&type=t&limit=5", None),
    ),
    (
        jobs,
        ["cancel", "job_a", "--reason", "no more"],
        JOB,
        ("POST", "/v1/jobs/job_a/cancel", {"reason": "no more"}),
    ),
    (
        dlq,
        ["list", "--cursor", "abc"],
        {"dead_letters": [LETTER], "next_cursor": None},
        ("GET", "/v1/dlq?limit=50&cursor=abc", None),
    ),
    (dlq, ["show", "job_a"], LETTER | {"job": JOB}, ("GET", "/v1/dlq/job_a", None)),
    (
        quarantine,
        ["list", "--tenant", "acme", "--status", "waiting"],
        {"quarantine": [KEPT], "next_cursor": None},
        ("GET", "/v1/quarantine?tenant_id=acme&status=waiting&limit=50", None),
    ),
    (quarantine, ["show", "evt_a"], KEPT, ("GET", "/v1/quarantine/evt_a", None)),
    (
        quarantine,
        ["release", "evt_a", "--note", "mended"],
        KEPT,
        ("POST", "/v1/quarantine/evt_a/release", {"note": "mended"}),
    ),
    (
        events,
        ["duplicates", "--tenant", "acme"],
        {"duplicates": [AGAIN], "next_cursor": None},
        ("GET", "/v1/duplicates?tenant_id=acme&limit=50", None),
    ),
    (
        dlq,
        ["replay", "job_a", "--note", "vendor is back", "--fresh-scope"],
        JOB,
        ("POST", "/v1/dlq/job_a/replay", {"incident_note": "vendor is back", "fresh_scope": True}),
    ),
    (
        dlq,
        [
            "replay",
            "job_a",
            "--note",
            "n",
            "--fresh-scope",
            "--again",
            "--type",
            "t2",
            "--repeat-effect",
            "email/x",
            "--repeat-effect",
            "refund/y",
        ],
        JOB,
        (
            "POST",
            "/v1/dlq/job_a/replay",
            {
                "incident_note": "n",
                "fresh_scope": True,
                "again": True,
                "type": "t2",
                "repeat_effects": ["email/x", "refund/y"],
            },
        ),
    ),
    (
        dlq,
        ["replay", "dispatcher:events:1:7", "--note", "n"],
        RECORD,
        ("POST", "/v1/dlq/dispatcher:events:1:7/replay", {"incident_note": "n"}),
    ),
    (
        dlq,
        [
            "replay",
            "--all",
            "--stage",
            "dispatcher",
            "--reason",
            "output_refused",
            "--note",
            "n",
            "--since",
            "2026-11-21T00:00:00Z",
            "--dry-run",
        ],
        SENT,
        (
            "POST",
            "/v1/dlq:replay",
            {
                "incident_note": "n",
                "stage": "dispatcher",
                "reason": "output_refused",
                "since": "2026-11-21T00:00:00Z",
                "dry_run": True,
            },
        ),
    ),
    (
        jobs,
        ["move", "job_a", "--pool", "gpu", "--note", "full"],
        JOB,
        ("POST", "/v1/jobs/job_a/move", {"pool": "gpu", "note": "full"}),
    ),
    (
        jobs,
        ["move", "--all", "--type", "t", "--pool", "gpu", "--note", "full", "--tenant", "job_a"],
        {
            "dry_run": False,
            "matched": 3,
            "movable": 3,
            "moved": 3,
            "next_cursor": None,
            "left_out": [{"id": "job_a", "reason": "r", "detail": "d"}],
        },
        (
            "POST",
            "/v1/jobs:move",
            {
                "pool": "gpu",
                "note": "full",
                "type": "t",
                "tenant_id": "job_a",
                "dry_run": False,
            },
        ),
    ),
    (
        jobs,
        ["settle", "job_a", "payment:refund/r 1", "--done", '{"id": "re_1"}', "--note", "found"],
        JOB,
        (
            "POST",
            "/v1/jobs/job_a/effects/payment:refund%2Fr%201/settle",
            {"status": "done", "result": {"id": "re_1"}, "note": "found"},
        ),
    ),
    (
        jobs,
        ["settle", "job_a", "email/x", "--not-done", "--note", "found"],
        JOB,
        (
            "POST",
            "/v1/jobs/job_a/effects/email%2Fx/settle",
            {"status": "not_done", "note": "found"},
        ),
    ),
    (
        jobs,
        ["held", "--tenant", "job_a"],
        {"held": [HELD], "next_cursor": None},
        ("GET", "/v1/held?tenant_id=job_a&limit=50", None),
    ),
    (
        events,
        ["route", "--tenant", "acme", "--source", "zendesk", "--dedup-key", "t-1", "--note", "n"],
        JOB,
        (
            "POST",
            "/v1/tenants/acme/events:route",
            {"source": "zendesk", "dedup_key": "t-1", "note": "n"},
        ),
    ),
]


@pytest.mark.parametrize(("group", "arguments", "answer", "asked"), CALLS)
def test_a_command_asks_the_api_and_prints_a_table_or_its_json(
    api: Api, group: Any, arguments: list[str], answer: dict[str, Any], asked: tuple[str, str, Any]
) -> None:
    api.answer = answer
    for_people, for_programs = (
        invoke(api, group, *arguments),
        invoke(api, group, *arguments, "--json"),
    )
    assert (for_people.exit_code, for_programs.exit_code) == (0, 0)
    assert json.loads(for_programs.stdout) == answer
    assert "job_a" in for_people.stdout
    for method, path, headers, body in api.asked:
        assert (method, path, body) == asked
        assert headers["Authorization"] == "Bearer a-token"


@pytest.mark.parametrize(
    ("group", "id_", "path"),
    [
        (jobs, "job_a", "/v1/jobs/job_a/payload"),
        (quarantine, "evt_a", "/v1/quarantine/evt_a/payload"),
    ],
)
def test_a_body_is_written_as_it_came(api: Api, group: Any, id_: str, path: str) -> None:
    api.raw = b"\x00\xff no text\r\n"
    done = invoke(api, group, "payload", id_)
    assert (done.exit_code, done.stdout_bytes) == (0, api.raw)
    assert api.asked[0][:2] == ("GET", path)
    api.status, api.raw, api.answer = 410, b"", {"detail": "tenant acme was erased"}
    gone = invoke(api, group, "payload", id_)
    assert (gone.exit_code, gone.stdout_bytes) == (1, b"")
    assert "was erased" in gone.stderr


def test_what_a_tenant_wrote_steers_no_terminal(api: Api) -> None:
    api.answer = JOB
    shown = invoke(api, jobs, "show", "job_a").stdout
    assert "[bold]\ufffd[31mTimeoutError" in shown


def test_a_job_shows_its_history_and_what_holds_it(api: Api) -> None:
    run = Attempt(1, 1_700_000_000_000, "w1/b", "lost", "WorkerLost: \x1b[31mgone")
    held = Held(0, "default", "t", None, "no_worker", 1_700_000_000_000, 3, "start one that does")
    api.answer = job_json(make_job("job_a", history=(run,), lost=1), JobDetails(held=held))
    shown = invoke(api, jobs, "show", "job_a").stdout
    for told in ("no_worker", "start one that does", "lost", "w1/b", "WorkerLost: \ufffd[31mgone"):
        assert told in shown


PAGE = {"dry_run": False, "matched": 5, "replayed": 3, "replayable": 3, "left_out": [HELD],
        "next_cursor": "abc"}  # fmt: skip


def test_a_bulk_replay_goes_on_to_its_end_and_sums_up(api: Api) -> None:
    pages = [PAGE, PAGE | {"matched": 2, "replayed": 2, "next_cursor": None}]
    api.answers = pages
    done = invoke(api, dlq, "replay", "--all", "--note", "n", "--json")
    total = json.loads(done.stdout)
    assert (total["matched"], total["replayed"], len(total["left_out"])) == (5, 5, 2)
    assert done.stderr == "replayed 3 of 5\n"
    assert [body for *_, body in api.asked] == [
        {"incident_note": "n", "dry_run": False},
        {"incident_note": "n", "dry_run": False, "cursor": "abc"},
    ]


@pytest.mark.parametrize(
    ("group", "arguments", "told"),
    [
        (dlq, ["replay"], "name one ID, or --all"),
        (dlq, ["replay", "job_a", "--all"], "name one ID, or --all"),
        (dlq, ["replay", "job_a", "--stage", "dedup"], "--stage goes with --all"),
        (dlq, ["replay", "job_a", "--dry-run"], "--dry-run goes with --all"),
        (dlq, ["replay", "--all", "--fresh-scope"], "--fresh-scope goes with one ID"),
        (dlq, ["replay", "--all", "--again"], "--again goes with one ID"),
        (dlq, ["replay", "--all", "--repeat-effect", "x"], "--repeat-effect goes with one ID"),
        (jobs, ["move", "--pool", "p"], "name one JOB_ID, or --all with --type"),
        (jobs, ["move", "--all", "--pool", "p"], "name one JOB_ID, or --all with --type"),
        (jobs, ["move", "j", "--dry-run", "--pool", "p"], "go with --all"),
        (jobs, ["settle", "j", "a"], "--done RESULT or --not-done"),
        (jobs, ["settle", "j", "a", "--done", "re_1"], "is not JSON"),
    ],
)
def test_flags_that_do_not_go_together_ask_nothing(
    api: Api, group: Any, arguments: list[str], told: str
) -> None:
    refused = invoke(api, group, *arguments, "--note", "n")
    assert (refused.exit_code, api.asked) == (2, [])
    assert told in " ".join(refused.stderr.replace("│", " ").split())


def test_a_replay_can_carry_a_key_and_an_id_stays_one_part_of_the_path(api: Api) -> None:
    api.answer = JOB
    invoke(api, dlq, "replay", "a/../b?c", "--note", "n", "--key", "once")
    _, path, headers, _ = api.asked[0]
    assert path == "/v1/dlq/a%2F..%2Fb%3Fc/replay"
    assert headers["Idempotency-Key"] == "once"


def test_a_refusal_exits_1_with_its_detail(api: Api) -> None:
    api.status, api.answer = 409, {"type": "urn:x", "detail": "job job_a has already ended: dead"}
    result = invoke(api, jobs, "cancel", "job_a")
    assert result.exit_code == 1
    assert result.stderr == "error: job job_a has already ended: dead\n"


def test_no_api_at_all_exits_1_with_what_to_do(api: Api) -> None:
    result = CliRunner().invoke(jobs, ["list", "--url", "http://127.0.0.1:9"])
    assert result.exit_code == 1
    assert "tidegate dev" in result.stderr


def test_the_token_comes_from_a_file_the_environment_or_dev(
    api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api.answer = JOB
    (tmp_path / "admin.token").write_text("dev-token\n")
    (tmp_path / "other").write_text("file-token\n")
    invoke(api, jobs, "show", "j", "--token-file", str(tmp_path / "other"))
    invoke(api, jobs, "show", "j", "--data-dir", str(tmp_path))
    monkeypatch.delenv("TIDEGATE_ADMIN_TOKEN")
    invoke(api, jobs, "show", "j", "--data-dir", str(tmp_path))
    used = [headers["Authorization"] for _, _, headers, _ in api.asked]
    assert used == ["Bearer file-token", "Bearer a-token", "Bearer dev-token"]
    missing = invoke(api, jobs, "show", "j", "--data-dir", str(tmp_path / "none"))
    assert missing.exit_code == 2
    assert "TIDEGATE_ADMIN_TOKEN" in missing.stderr


def test_the_api_of_a_running_dev_is_asked_unless_another_is_named(
    api: Api, tmp_path: Path
) -> None:
    api.answer = {"jobs": [], "next_cursor": None}
    state = tmp_path / "dev.json"
    state.write_text(json.dumps({"url": api.url}))
    here = ["list", "--data-dir", str(tmp_path)]
    assert CliRunner().invoke(jobs, here).stdout == "none\n"
    state.write_text(json.dumps({"url": "http://127.0.0.1:9"}))
    assert invoke(api, jobs, *here).exit_code == 0
    unanswered = CliRunner().invoke(jobs, here)
    assert (unanswered.exit_code, "http://127.0.0.1:9 " in unanswered.stderr) == (1, True)


def test_a_wrong_token_is_told_with_where_it_came_from(
    api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api.status, api.answer = 401, {"type": "urn:x", "detail": "not this one"}
    told = f"error: the operator at {api.url} refuses the token from "
    refused = invoke(api, jobs, "list")
    assert (refused.exit_code, refused.stderr.startswith(f"{told}TIDEGATE_ADMIN_TOKEN: ")) == (
        1, True,
    )  # fmt: skip
    monkeypatch.delenv("TIDEGATE_ADMIN_TOKEN")
    file = tmp_path / "admin.token"
    file.write_text("old")
    for flags in (["--token-file", str(file)], ["--data-dir", str(tmp_path)]):
        assert invoke(api, jobs, "list", *flags).stderr.startswith(f"{told}{file}: ")


@pytest.mark.parametrize("token", [None, "", "  "])
def test_the_operator_refuses_to_start_without_a_token(tmp_path: Path, token: str | None) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    settings = load_settings({}, vault_key_file=key, admin_token=token, data_dir=tmp_path)
    with pytest.raises(ConfigError, match="TIDEGATE_ADMIN_TOKEN"):
        build(settings, load(), DirectAdmission)


@pytest.mark.parametrize(
    "arguments",
    [("cancel", "job_a"), ("move", "job_a", "--pool", "gpu", "--note", "n")],
)
def test_a_command_that_nothing_carried_out_in_time_says_so_and_exits_1(
    api: Api, arguments: tuple[str, ...]
) -> None:
    api.status, api.answer = 202, {**JOB, "answered": False}
    told = invoke(api, jobs, *arguments)
    assert told.exit_code == 1
    assert "the command is written, but no dispatcher carried it out within 5 s" in told.stderr
    assert "tidegate jobs show job_a" in told.stderr
    assert "job_a" in told.stdout, "the job is shown all the same"
    api.answer = {**JOB, "answered": True}
    done = invoke(api, jobs, *arguments)
    assert (done.exit_code, done.stderr) == (0, "")


def test_a_waiting_job_shows_the_caps_that_keep_it(api: Api) -> None:
    cap = {"limit": "per_tenant", "scope": "tenant", "value": "acme", "in_use": 5, "concurrency": 5}
    waits = {"reason": "cap", "since": None, "detail": "it starts after one ends", "caps": [cap]}
    api.answer = {**JOB, "waits": waits}
    shown = invoke(api, jobs, "show", "job_a").stdout
    for told in ("why it waits", "cap", "it starts after one ends", "per_tenant", "acme", "in use"):
        assert told in shown
