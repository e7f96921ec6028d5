"""`tidegate jobs submit` and `watch`: each change is told once, and the exit code is the end's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.operator_api import OperatorApi, problem
from support.operator_cluster import make_job
from typer.testing import CliRunner, Result

from streams.api.jobs.cli import jobs
from streams.api.jobs.view import JobDetails, job_json
from streams.api.live import cli_job_events as job_events
from streams.api.live import cli_watch as watch
from streams.api.steps.table import Step
from streams.serde.job_states import TERMINAL

PATH, SUBMIT = "/v1/jobs/job_a", "/v1/tenants/acme/jobs"
STREAM = f"{PATH}/events"


def job(status: str = "running", **changes: Any) -> dict[str, Any]:
    made = job_json(make_job("job_a", attempts=1), JobDetails())
    return {**made, "status": status, "last_error": None, **changes}


EFFECT = {"action": "email:send/reply", "status": "done"}
ENDED = job("succeeded", effects=[EFFECT], result={"sent": 1})


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_events, "_AGAIN_SECONDS", 0)


def stream(*frames: tuple[str, Any]) -> bytes:
    """A stream with these events that breaks off behind the last one."""
    told = (f"id: {n}\nevent: {e}\ndata: {json.dumps(d)}\n\n" for n, (e, d) in enumerate(frames))
    return "".join(told).encode()


def shown(*looks: Any) -> list[Any]:
    """A stream for each look; a problem is answered as it is."""
    return [each if isinstance(each, tuple) else stream(("status", each)) for each in looks]


def invoke(operator: OperatorApi, *arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(jobs, [*arguments, "--url", operator.url], input=typed)


def lines(result: Result) -> list[str]:
    """What was told of the job, without the times."""
    return [re.sub(r"^\d\d:\d\d:\d\dZ job_a ", "", line) for line in result.stdout.splitlines()]


def test_a_pipe_gets_a_line_for_each_change_and_none_twice(operator: OperatorApi) -> None:
    half = job(progress={"pct": 50})
    why = {"reason": "scheduled", "detail": "its next attempt starts at 2026-11-21T09:00:00Z"}
    retry = job("scheduled", last_error="no \x1b[31manswer", why=why)
    looks = (job("pending", attempts=0), job(), job(), half, half, retry, ENDED)
    operator.on("GET", STREAM, *shown(*looks))
    done = invoke(operator, "watch", "job_a")
    assert lines(done) == [
        "pending",
        "running, attempt 1",
        'running, attempt 1, progress {"pct":50}',
        "scheduled, attempt 1, its next attempt starts at 2026-11-21T09:00:00Z, "
        "error: no \ufffd[31manswer",
        'succeeded, attempt 1, effect email:send/reply done, result {"sent":1}',
    ]
    assert done.exit_code == 0


def test_json_is_one_job_a_line(operator: OperatorApi) -> None:
    operator.on("GET", STREAM, *shown(job(), job(), ENDED))
    done = invoke(operator, "watch", "job_a", "--json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [job(), ENDED]


def test_what_comes_before_the_first_status_is_no_look(operator: OperatorApi) -> None:
    before = [
        ("step", {"job_id": "job_a", "name": "made"}),
        ("effect", EFFECT),
        ("log", {"job_id": "job_a", "event": "made"}),
        ("progress", {"value": 1}),
    ]
    operator.on("GET", STREAM, stream(*before, ("status", ENDED)))
    done = invoke(operator, "watch", "job_a")
    assert len(lines(done)) == 1
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        ("succeeded", 0, ""),
        ("failed", 3, "tidegate dlq show job_a"),
        ("dead", 3, "tidegate dlq replay job_a --note TEXT"),
        ("cancelled", 3, ""),
        ("needs_review", 4, "tidegate jobs review --tenant acme"),
    ],
)
def test_the_exit_code_tells_the_end_and_the_next_step_is_said(
    operator: OperatorApi, status: str, code: int, said: str
) -> None:
    operator.on("GET", STREAM, *shown(job(status)))
    done = invoke(operator, "watch", "job_a")
    assert (done.exit_code, said in done.stderr, bool(done.stderr)) == (code, True, bool(said))


def test_every_end_of_a_job_has_an_exit_code() -> None:
    assert set(watch.EXIT_CODES) == TERMINAL | {"needs_review"}


def test_a_gap_of_the_api_is_told_once_and_ends_nothing(operator: OperatorApi) -> None:
    gap = problem(503, "not-ready")
    operator.on("GET", STREAM, *shown(job(), gap, gap, job(), gap, ENDED))
    done = invoke(operator, "watch", "job_a")
    assert done.exit_code == 0
    assert done.stderr == "the API does not answer: trying on\n" * 2
    assert [line.split(",")[0] for line in lines(done)] == ["running", "running", "succeeded"]


def test_an_api_that_never_answered_and_a_job_that_is_not_there_end_it(
    operator: OperatorApi,
) -> None:
    missing = invoke(operator, "watch", "job_a")
    operator.on("GET", STREAM, problem(503, "not-ready"))
    unready = invoke(operator, "watch", "job_a")
    assert (missing.exit_code, unready.exit_code) == (1, 1)
    assert len(operator.asked) == 2


def test_a_job_that_is_purged_before_its_end_was_told_ends_the_watch_by_a_word(
    operator: OperatorApi,
) -> None:
    gone = {"job_id": "job_a", "status": "purged"}
    operator.on("GET", STREAM, stream(("status", job()), ("end", gone)))
    done = invoke(operator, "watch", "job_a")
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "job job_a is not kept any more" in done.stderr


def test_a_terminal_has_one_view_that_changes_in_place(
    operator: OperatorApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    operator.on("GET", STREAM, *shown(job(), problem(503, "not-ready"), job(), ENDED))
    told = invoke(operator, "watch", "job_a").stdout
    assert "does not answer: trying on" in told
    last = told.rpartition("job_id")[2]
    assert "succeeded" in last
    assert "email:send/reply done" in last
    assert "does not answer" not in last


def test_a_terminal_shows_the_text_that_the_job_streams_and_a_pipe_does_not(
    operator: OperatorApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ({"step": "draft", "text": text} for text in ("Dear ", "\x1b[31mann"))
    other = {"step": "", "text": "first attempt"}
    frames = [("token", each) for each in (other, *said)]
    whole = stream(("status", job()), *frames, ("reset", {"step": ""}), ("status", ENDED))
    operator.on("GET", STREAM, whole)
    piped = invoke(operator, "watch", "job_a")
    assert [line.split(",")[0] for line in lines(piped)] == ["running", "succeeded"]
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    operator.on("GET", STREAM, whole)
    told = invoke(operator, "watch", "job_a").stdout
    assert "first attempt" in told
    last = told.rpartition("job_id")[2]
    assert "Dear \ufffd[31mann" in last
    assert "first attempt" not in last


def test_submit_sends_what_it_is_told_and_shows_the_job(
    operator: OperatorApi, tmp_path: Path
) -> None:
    operator.on("POST", SUBMIT, job("scheduled"), status=202)
    (tmp_path / "input.json").write_text('{"a": 1}')
    plain = invoke(operator, "submit", "t", "--tenant", "acme", "--json")
    flags = ["--delay", "20s", "--priority", "bulk", "--timeout", "5m", "--key", "k", "--input"]
    for given, typed in ((f"@{tmp_path}/input.json", ""), ("-", '{"a": 1}'), ('{"a": 1}', "")):
        invoke(operator, "submit", "t", "--tenant", "acme", *flags, given, typed=typed)
    at = "2026-11-21T09:00:00Z"
    invoke(operator, "submit", "t", "--tenant", "acme", "--at", at, "--input", "null")
    whole = {
        "type": "t",
        "input": {"a": 1},
        "delay_seconds": 20,
        "priority": "bulk",
        "timeout_seconds": 300,
    }
    assert operator.bodies("POST") == [
        {"type": "t", "input": {}},
        whole,
        whole,
        whole,
        {"type": "t", "input": None, "run_at": at},
    ]
    assert json.loads(plain.stdout) == job("scheduled")
    assert [each.headers.get("Idempotency-Key") for each in operator.asked[:2]] == [None, "k"]


def test_submit_says_in_one_sentence_what_became_of_the_job(operator: OperatorApi) -> None:
    found = job("scheduled", scheduled_at="2026-11-21T09:00:00.000Z")
    operator.on("POST", SUBMIT, found, status=202)
    done = invoke(operator, "submit", "t", "--tenant", "acme", "--delay", "20s")
    (line,) = done.stdout.splitlines()
    assert line == (
        f"{found['job_id']} ({found['type']}) is scheduled, to start at 2026-11-21T09:00:00.000Z"
    )


def test_submit_and_watch_waits_for_the_job_to_be_shown(operator: OperatorApi) -> None:
    operator.on("POST", SUBMIT, job("pending"), status=202)
    late, unready = problem(404, "job-unknown"), problem(503, "not-shown")
    operator.on("GET", STREAM, *shown(late, unready, job("dead", last_error="no")))
    done = invoke(operator, "submit", "t", "--tenant", "acme", "--watch")
    assert (done.exit_code, lines(done)) == (3, ["dead, attempt 1, error: no"])


def test_a_job_that_is_never_made_ends_the_watch_with_what_to_check(
    operator: OperatorApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_events, "_SHOWN_WITHIN_SECONDS", 0)
    operator.on("POST", SUBMIT, job("pending"), status=202)
    operator.on("GET", STREAM, problem(404, "job-unknown"))
    done = invoke(operator, "submit", "t", "--tenant", "acme", "--watch")
    assert (done.exit_code, "`tidegate pipeline`" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--input", "{"], "is not JSON"),
        (["--input", "1e400"], "number is infinity when parsed as double"),
        (["--input", str(2**64)], "an integer has more than 64 bits: write it as a string"),
        (["--input", "[" * 1_000 + "]" * 1_000], "it is nested too deep"),
        (["--input", "@/no/such"], "/no/such cannot be read"),
        (["--delay", "20"], "as 20s, 15m"),
        (["--delay", "20s", "--at", "2026-11-21T09:00:00Z"], "not both"),
    ],
)
def test_a_wrong_submission_asks_nothing(
    operator: OperatorApi, flags: list[str], told: str
) -> None:
    refused = invoke(operator, "submit", "t", "--tenant", "acme", *flags)
    assert (refused.exit_code, operator.asked) == (2, [])
    assert told in " ".join(refused.stderr.replace("│", " ").split())


def test_submit_warns_of_a_type_that_nothing_handles_and_names_the_next_step(
    operator: OperatorApi,
) -> None:
    operator.on("POST", SUBMIT, job("pending", warning="did you mean 'draft_reply'?"), status=202)
    done = invoke(operator, "submit", "draft_repli", "--tenant", "acme", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["job_id"] == "job_a"
    assert done.stderr.splitlines() == [
        "warning: did you mean 'draft_reply'?",
        f"follow it with: tidegate jobs watch job_a --url {operator.url}",
    ]


def test_what_waits_gave_is_told_in_words(operator: OperatorApi) -> None:
    decided = {"approved": True, "by": "ann", "note": "half of it", "edit": {"key_id": "k"}}
    event = {"event": {"event_type": "ticket.answered", "event_id": "evt_a"}, "payload_ref": None}
    steps = (
        Step("draft", '"Hi"'),
        Step("event", json.dumps(event), "event"),
        Step("sleep!", '{"until": 1}', "passed"),
        Step("first", '"answer"', "first"),
        Step("!effect[mail:send%2Freply]", json.dumps(decided), "approval"),
        Step("sleep", "null", "time"),
        Step("event#2", "null", "event", "WaitTimeout: its time is over"),
    )
    ended = job_json(make_job("job_a", status="succeeded"), JobDetails(steps=steps))
    operator.on("GET", PATH, ended)
    operator.on("GET", STREAM, *shown(ended))
    (line,) = lines(invoke(operator, "watch", "job_a"))
    assert (
        ", ".join(
            (
                "step draft",
                "event: ticket.answered evt_a",
                "first: answer",
                "mail:send/reply: approved by ann, with an edit: half of it",
                "sleep: its time came",
                "event#2: WaitTimeout: its time is over",
            )
        )
        in line
    )
    told = invoke(operator, "show", "job_a").stdout
    assert re.search(r"event +ticket.answered evt_a *$", told, re.MULTILINE)
    assert "sleep!" not in told


def test_a_wait_for_people_is_shown_by_its_effect_and_with_its_time(operator: OperatorApi) -> None:
    wait = {"kind": "approval", "name": "!effect[mail:send%2Freply]", "approval_id": "apr_1"}
    times = {"since": "2026-11-21T09:00:00.123Z", "until": "2026-11-22T09:00:00.123Z"}
    operator.on("GET", PATH, job("waiting", waits=[{**wait, **times}]))
    told = invoke(operator, "show", "job_a").stdout
    assert "mail:send/reply" in told
    assert "!effect" not in told
    assert "2026-11-22 09:00:00Z" in told


def test_what_changes_between_two_states_is_told_and_the_stream_goes_on_from_its_last_id(
    operator: OperatorApi,
) -> None:
    said = {"job_id": "job_a", "at": "now", "level": "info", "message": "m", "fields": {}}
    first = stream(
        ("status", job(log=[])),
        ("token", {"text": "Hi", "step": "", "job_id": "job_a"}),
        ("progress", {"job_id": "job_a", "value": {"pct": 5}}),
        ("step", {"job_id": "job_a", "name": "draft", "kind": "step", "value": 1, "error": None}),
        ("effect", {"of_job": "job_a", **EFFECT, "status": "claimed"}),
        ("effect", {"of_job": "job_a", **EFFECT}),
        ("log", said),
    )
    operator.on("GET", STREAM, first + b": \nid: 77\n\nid: 78\nevent: sta", *shown(ENDED))
    done = invoke(operator, "watch", "job_a")
    assert [each.headers.get("Last-Event-ID") for each in operator.asked] == [None, "77"]
    assert lines(done)[:5] == [
        "running, attempt 1",
        'running, attempt 1, progress {"pct":5}',
        'running, attempt 1, progress {"pct":5}, step draft',
        'running, attempt 1, progress {"pct":5}, step draft, effect email:send/reply claimed',
        'running, attempt 1, progress {"pct":5}, step draft, effect email:send/reply done',
    ]
    assert done.exit_code == 0


def test_show_prints_the_last_log_lines(operator: OperatorApi) -> None:
    said = {"at": "2026-11-21T09:00:00Z", "level": "info", "message": "sent", "fields": {"to": "x"}}
    operator.on("GET", PATH, job(log=[said]))
    told = invoke(operator, "show", "job_a").stdout
    assert "2026-11-21T09:00:00Z info: sent to=x" in told
