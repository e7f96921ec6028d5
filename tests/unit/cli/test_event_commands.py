"""`tidegate events list | show | payload` and `jobs review`, against an API that answers so."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from support.operator_cluster import event_job, make_entry, make_event
from typer.testing import CliRunner, Result

from streams.cli.dlq import dlq
from streams.cli.events import events
from streams.cli.jobs import jobs
from streams.operator.resources.dead_letters import dead_letter_json
from streams.operator.resources.effects import effect_json
from streams.operator.resources.events import event_details, event_json
from streams.operator.resources.job_view import JobDetails, job_json
from streams.serde.records import DeadLetter

EVENT = make_event("order 7's", subject="order 7")
OWNER = event_job(EVENT, status="needs_review", last_error="effect refund/r 1 is unknown")
UNKNOWN = make_entry(OWNER, "refund/r 1", status="review", result=None, error=None)
JOB = job_json(OWNER, JobDetails(effects=(UNKNOWN, make_entry(OWNER, "email/done"))))
LOST = {"tenant_id": "acme", "job_id": "job_lost", "type": "t", "job_status": "cancelled",
        **effect_json(UNKNOWN)}  # fmt: skip
REPLAY = {"job_id": "job_again", "replay_of": OWNER.job_id, "type": "t", "status": "succeeded",
          "created_at": "2026-11-23T20:00:00.000Z", "note": "the mapping is mended",
          "submitted_by": "operator"}  # fmt: skip
STORY: dict[str, Any] = {
    **event_json(EVENT, None), **event_details(EVENT), "partition": 1, "offset": 7,
    "duplicates": {"count": 3, "last_at": "2026-11-23T20:00:00.000Z", "last_event_id": "evt_9"},
    "job": None, "replays": [], "dead_letters": [], "quarantine": None,
}  # fmt: skip


class Answers:
    """An API that answers by path, and keeps the paths that it was asked for."""

    def __init__(self) -> None:
        self.by_path: dict[str, bytes] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                answer = outer.by_path[self.path.partition("?")[0]]
                self.send_response(200)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)

    def run(self, group: Any, *arguments: str) -> Result:
        url = f"http://127.0.0.1:{self.server.server_port}"
        done = CliRunner().invoke(group, [*arguments, "--url", url])
        assert done.exit_code == 0, done.output
        return done


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    monkeypatch.setenv("TIDEGATE_ADMIN_TOKEN", "a-token")
    monkeypatch.setenv("COLUMNS", "200")
    found = Answers()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def test_events_are_listed_by_what_is_asked_for(api: Answers) -> None:
    page = {"events": [event_json(EVENT, None)], "next_cursor": "abc"}
    api.by_path["/v1/events"] = json.dumps(page).encode()
    asked = ["list", "--tenant", "acme", "--source", "shop", "--type", "order.*", "--unrouted"]
    text = api.run(events, *asked).stdout
    assert api.asked == [
        "/v1/events?tenant_id=acme&source=shop&event_type=order.*&unrouted=true&limit=50"
    ]
    assert all(part in text for part in ("evt_order 7's", "order.paid", "more: --cursor abc"))
    assert json.loads(api.run(events, *asked, "--json").stdout) == page
    api.run(events, "list", "--limit", "5")
    assert api.asked[-1] == "/v1/events?limit=5"


def test_an_event_without_a_job_comes_with_the_command_that_gives_it_one(api: Answers) -> None:
    api.by_path["/v1/events/evt_1"] = json.dumps(STORY).encode()
    lines = api.run(events, "show", "evt_1").stdout.splitlines()
    assert any("no route matched it" in line for line in lines)
    (command,) = (line for line in lines if line.startswith("tidegate "))
    assert shlex.split(command) == [
        "tidegate", "events", "route", "--tenant", "acme", "--source", "shop",
        "--dedup-key", "order 7's", "--note", "a route matches it now",
    ]  # fmt: skip
    assert any("evt_9" in line for line in lines)


def test_an_event_shows_its_job_its_replays_and_dead_letters(api: Answers) -> None:
    letter = dead_letter_json(
        DeadLetter("dispatcher:events:1:7", "record", "", "output_refused", "large", "d", 1)
    )
    story = STORY | {"job_id": OWNER.job_id, "job": JOB, "replays": [REPLAY]}
    api.by_path["/v1/events/evt_1"] = json.dumps(story | {"dead_letters": [letter]}).encode()
    text = api.run(events, "show", "evt_1").stdout
    wanted = (OWNER.job_id, "refund/r 1", "email/done", "job_again", "the mapping is mended",
              "output_refused")  # fmt: skip
    assert [each for each in wanted if each not in text] == []
    assert "events route" not in text


def test_an_events_body_is_written_as_it_came(api: Answers) -> None:
    api.by_path["/v1/events/evt_1/payload"] = b"\x00\xff no text\r\n"
    assert api.run(events, "payload", "evt_1").stdout_bytes == b"\x00\xff no text\r\n"


def test_a_dead_letter_shows_its_replays_with_their_notes(api: Answers) -> None:
    letter = DeadLetter("job_a", "job", "acme", "permanent_error", "no", "dispatcher", 1)
    shown = dead_letter_json(letter, [REPLAY], "succeeded") | {"job": None}
    api.by_path["/v1/dlq/job_a"] = json.dumps(shown).encode()
    text = api.run(dlq, "show", "job_a").stdout
    wanted = ("replayed as", "job_again", "succeeded", "2026-11-23 20:00:00Z", "operator",
              "the mapping is mended")  # fmt: skip
    assert [each for each in wanted if each not in text] == []


def test_review_gives_each_unknown_effect_with_both_answers_to_paste(api: Answers) -> None:
    page = {"jobs": [JOB], "next_cursor": None}
    api.by_path["/v1/jobs"] = json.dumps(page).encode()
    lost = {"effects": [LOST], "next_cursor": "more"}
    api.by_path["/v1/effects/unknown"] = json.dumps(lost).encode()
    text = api.run(jobs, "review", "--tenant", "acme").stdout
    assert api.asked == [
        "/v1/jobs?tenant_id=acme&status=needs_review&limit=50",
        "/v1/effects/unknown?tenant_id=acme&limit=50",
    ]
    settle = ["tidegate", "jobs", "settle", OWNER.job_id, "refund/r 1"]
    commands = [shlex.split(line) for line in text.splitlines() if "jobs settle" in line]
    assert commands == [
        [*settle, "--done", "RESULT_AS_JSON", "--note", "the tool shows it"],
        [*settle, "--not-done", "--note", "the tool does not show it"],
    ]
    assert "run run_1 ended without telling its outcome" in text
    assert "cannot be settled" in text
    assert "job_lost" in text
    answer = json.loads(api.run(jobs, "review", "--json").stdout)
    (effect,) = answer["review"]
    assert (effect["tool"], effect["key"], effect["status"]) == ("refund", "r 1", "review")
    assert (answer["lost"], answer["more_lost"]) == ([json.loads(json.dumps(LOST))], True)


def test_review_says_that_nothing_waits(api: Answers) -> None:
    api.by_path["/v1/jobs"] = b'{"jobs": [], "next_cursor": null}'
    api.by_path["/v1/effects/unknown"] = b'{"effects": [], "next_cursor": null}'
    assert api.run(jobs, "review").stdout == "no effect waits for an answer\n"
