"""The example's tools say what is known of an effect, and no more."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest
from aiohttp import web
from support.worker_bench import bench

from ingress.samples import sample
from streams.serde.records import Ended, EventInfo, Outcome
from streams.testing import Bench, Job, crash_points
from streams.topology.load import load
from streams.worker.app import App
from streams.worker.app_loader import load_app

ROOT = Path(__file__).parents[3]
TICKET = orjson.dumps({"detail": {"id": 7, "subject": "Late", "order_id": 12}})


@dataclass
class Services:
    """The mail and payment services; answers are (status, headers)."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, str, object]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        key = request.headers["Idempotency-Key"]
        self.calls.append((request.path, key, await request.json()))
        return web.json_response({"ok": True}, status=self.status, headers=self.headers)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.chdir(ROOT)
    return load_app("examples.support.app:app")


@pytest.fixture
async def services(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Services]:
    found, server = Services(), web.Application()
    server.router.add_post("/{any}", found.answer)
    runner = web.AppRunner(server)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    monkeypatch.setenv("SUPPORT_TOOLS_URL", f"http://{host}:{port}")
    yield found
    await runner.cleanup()


async def run(app: App, type: str, status: str = "OPEN") -> tuple[Ended, list[Outcome]]:
    event = EventInfo(
        "evt_1",
        "zendesk",
        "ticket.created",
        None,
        None,
        1,
        "application/json",
        None,
        None,
        "k",
        {"status": status},
    )
    async with bench(app) as at:
        ref = at.event_body("evt_1", TICKET)
        ended = await at.ended(at.give(type, event=event, payload_ref=ref))
        return ended, at.bodies(Outcome)


async def test_a_ticket_gets_a_draft_and_one_email_under_its_key(
    app: App, services: Services
) -> None:
    ended, _ = await run(app, "draft_reply")
    assert ended.status == "succeeded"
    ((path, key, body),) = services.calls
    assert (path, key) == ("/email", "idk of email:send/reply")
    assert body == {"ticket_id": "7", "text": orjson.loads(ended.result or "")["draft"]}


async def test_a_refund_names_its_order(app: App, services: Services) -> None:
    ended, _ = await run(app, "refund")
    assert ended.status == "succeeded"
    assert services.calls == [("/refund", "idk of payment:refund/order", {"order_id": "12"})]


@pytest.mark.parametrize(
    ("status", "headers", "ended_as", "after", "outcome"),
    [
        (503, {}, "retry", None, "failed"),
        (429, {"Retry-After": "7"}, "retry", 7, "failed"),
        (422, {}, "failed", None, "failed"),
        (500, {}, "retry", None, "unknown"),
    ],
)
async def test_an_answer_decides_what_is_known_of_the_effect(
    app: App,
    services: Services,
    status: int,
    headers: dict[str, str],
    ended_as: str,
    after: float | None,
    outcome: str,
) -> None:
    services.status, services.headers = status, headers
    ended, outcomes = await run(app, "refund")
    assert (ended.status, ended.retry_after_seconds) == (ended_as, after)
    assert [o.status for o in outcomes] == [outcome]


async def test_a_service_that_is_not_there_did_nothing(
    app: App, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setenv("SUPPORT_TOOLS_URL", f"http://127.0.0.1:{unused_tcp_port}")
    ended, outcomes = await run(app, "refund")
    assert (ended.status, [o.status for o in outcomes]) == ("retry", ["failed"])


async def test_a_solved_ticket_is_not_answered(app: App, services: Services) -> None:
    ended, _ = await run(app, "draft_reply", status="SOLVED")
    assert (ended.status, services.calls) == ("cancelled", [])


_TIDEGATE = """#!{python}
import sys
words = sys.argv[1:]
if words[0] == "send":
    named = words[words.index("--sample") + 1] if "--sample" in words else open(words[1]).read()
    sys.stdout.write(named + chr(0))
"""


def test_the_readmes_commands_send_events_that_its_routes_take(tmp_path: Path) -> None:
    """Its shell block as it stands, with a `tidegate` that prints the body or the sample's name."""
    text = (ROOT / "examples/support/README.md").read_text()
    (commands,) = (b for b in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE) if " send " in b)
    (tmp_path / "tidegate").write_text(_TIDEGATE.format(python=sys.executable))
    (tmp_path / "tidegate").chmod(0o755)
    script = commands.replace("$PWD/.venv/bin", str(tmp_path))
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    first, second = done.stdout.removesuffix("\0").split("\0")
    bodies = [sample("zendesk", first, time.time()).body, second.encode()]
    topology = load(ROOT / "examples/support/topology.yaml")
    routes = [topology.route("zendesk", _event_type(body)) for body in bodies]
    assert [route and route.job for route in routes] == ["draft_reply", "refund"]


def _event_type(body: bytes) -> str:
    named: str = orjson.loads(body)["type"]
    return named.removeprefix("zen:event-type:")


def followed_up(bench: Bench) -> Job:
    bench.fake("email:send", returns={})
    job = bench.event("ticket.pending", orjson.loads(TICKET), source="zendesk", subject="t7").run()
    assert job.status == "waiting"
    return job


def test_a_customer_who_does_not_answer_is_written_to_once(app: App) -> None:
    with Bench(app, topology=ROOT / "examples/support/topology.yaml") as bench:
        job = followed_up(bench)
        bench.advance(4 * 3600 + 1)
        assert (job.run().status, [call.key for call in job.calls]) == ("succeeded", ["follow-up"])


def test_a_solved_ticket_ends_the_follow_up(app: App) -> None:
    with Bench(app, topology=ROOT / "examples/support/topology.yaml") as bench:
        job = followed_up(bench)
        bench.deliver("ticket.solved", {"solved": 7}, source="zendesk", subject="t7")
        bench.advance(5 * 3600)
        assert (job.status, job.calls) == ("cancelled", [])


def test_the_answer_to_an_escalated_ticket_is_sent_once_a_person_approves(app: App) -> None:
    with Bench(app, topology=ROOT / "examples/support/topology.yaml") as bench:
        bench.fake("email:send", returns={})
        job = bench.event("ticket.escalated", orjson.loads(TICKET), source="zendesk").run()
        assert (job.status, job.calls) == ("waiting", [])
        job.approve("email:send/reply").run()
        assert (job.status, len(job.calls)) == ("succeeded", 1)


def test_wherever_the_worker_dies_each_mail_is_sent_once(app: App) -> None:
    for crash in crash_points():
        with Bench(app, topology=ROOT / "examples/support/topology.yaml", crash=crash) as bench:
            job = followed_up(bench)
            bench.advance(4 * 3600 + 60)
            ticket = orjson.loads(TICKET) | {"time": 8}
            answered = bench.event("ticket.created", ticket, source="zendesk").run()
            assert job.run().status == answered.status == "succeeded"
            assert sorted(call.key for call in bench.happened) == ["follow-up", "reply"]
