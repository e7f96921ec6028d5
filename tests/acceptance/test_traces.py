"""The trace of one event across real processes: a retry, a killed worker, a replay, a delivery."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook
from support.collector import Collector, Traced, over_grpc, over_http, tree
from support.conditions import eventually
from support.dev_process import Dev, get, start, stop
from support.hook_receiver import HookReceiver, serving

pytestmark = [pytest.mark.broker, pytest.mark.fault]

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
TOLD = "a body that no span may show"
APPLICATION = """
import asyncio
from pathlib import Path

import structlog
from streams import App, Context, PermanentError, Retry, TransientError

app = App("desk")
app.tool("email:send", key_lifetime=3600)
FOLDER = Path(__file__).parent


@app.job("answer", retry=Retry(max_attempts=5, backoff=(0.2,)), timeout=60)
async def answer(ctx: Context) -> str:
    body = await ctx.payload()
    await ctx.step("draft", draft)
    if not (FOLDER / "replayed").exists():
        if ctx.attempt == 1:
            raise TransientError("busy: " + body.decode())
        if not (FOLDER / "hung").exists():
            (FOLDER / "hung").touch()
            await asyncio.sleep(60)
    await ctx.effect("email:send", send, key="reply", to="ann@example.com")
    if not (FOLDER / "replayed").exists():
        raise PermanentError("no such customer")
    return "sent"


async def draft() -> str:
    structlog.get_logger().info("a draft is made")
    return "draft"


async def send(to: str, idempotency_key: str, traceparent: str) -> str:
    (FOLDER / "called").write_text(traceparent)
    return "sent"
"""
TOPOLOGY = "routes: [{match: {source: desk}, job: answer}]\n"


def started(folder: Path, collector: Collector, *arguments: str, **more: str) -> Dev:
    """A `dev` with the application and its source, which traces everything."""
    (folder / "desk.py").write_text(APPLICATION)
    (folder / "topology.yaml").write_text(TOPOLOGY)
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "TIDEGATE_LOG_FORMAT": "json",
        **more,
    }
    dev = start(
        folder / "data",
        "--app",
        "desk:app",
        "--topology",
        "topology.yaml",
        *arguments,
        folder=folder,
        environment=environment,
    )
    dev.api("PUT", "/v1/tenants/acme", {})
    source = {"scheme": "standard-webhooks", "secret": SECRET}
    dev.api("PUT", "/v1/tenants/acme/sources/desk", source)
    return dev


def deliver(dev: Dev) -> tuple[str, str]:
    """Deliver an event in a trace of its sender's; that trace's id, and the event's job."""
    trace_id = os.urandom(16).hex()
    body, now = json.dumps({"type": "ticket.created", "data": {"text": TOLD}}), datetime.now(UTC)
    headers = {
        "webhook-id": f"msg_{trace_id}",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign(f"msg_{trace_id}", now, body),
        "traceparent": f"00-{trace_id}-{'b' * 16}-01",
        "Content-Type": "application/json",
    }
    url = f"{dev.url}/v1/hooks/acme/desk?key=of-the-query"
    taken = eventually(
        lambda: found if (found := get(url, headers, body.encode()))[0] == 202 else None,
        what="the ingress knows the source",
    )
    return trace_id, str(json.loads(taken[1])["job_id"])


def becomes(dev: Dev, job_id: str, status: str) -> None:
    def has_become() -> bool:
        jobs = dev.api("GET", "/v1/jobs?tenant_id=acme")["jobs"]
        return (job_id, status) in [(job["job_id"], job["status"]) for job in jobs]

    eventually(has_become, what=f"{job_id} {status}")


def children(spans: list[Traced], parent: Traced, name: str = "") -> list[Traced]:
    """The spans right below another, in the order in which they began."""
    return [s for s in spans if s.parent == parent.span_id and name in ("", s.name)]


def only(spans: list[Traced], name: str) -> Traced:
    (found,) = [span for span in spans if span.name == name]
    return found


@dataclass
class Story:
    """What the first test's event left: its trace, and what was seen from outside."""

    collector: Collector
    trace_id: str
    receiver: HookReceiver
    folder: Path
    logs: str
    metrics: str

    @property
    def spans(self) -> list[Traced]:
        return self.collector.of(self.trace_id)

    @property
    def leases(self) -> list[Traced]:
        return [span for span in self.spans if span.name == "send link"]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """An event whose job fails once, loses its worker, fails for good and is replayed."""
    folder = tmp_path_factory.mktemp("traced")
    with over_http() as collector, serving(HookReceiver(503)) as receiver:
        dev = started(folder, collector, "--apart")
        endpoint = {"url": receiver.url, "events": ["ticket.*"], "secret": SECRET, "retry": [0.2]}
        dev.api("PUT", "/v1/tenants/acme/endpoints/crm", endpoint)
        trace_id, job_id = deliver(dev)
        eventually((folder / "hung").exists, what="the second run hangs")
        os.kill(dev.pids["worker-0"], signal.SIGKILL)
        becomes(dev, job_id, "failed")
        (folder / "replayed").touch()
        note = {"incident_note": "mended"}
        replay = dev.api("POST", f"/v1/dlq/{job_id}/replay", note)["job_id"]
        becomes(dev, replay, "succeeded")
        eventually(lambda: len(receiver.got) == 2, what="the message is delivered")
        accept = {"Accept": "application/openmetrics-text"}
        metrics = get(f"{dev.url}/metrics", accept)[1]
        assert stop(dev) == 0
        logs = "".join(path.read_text() for path in (folder / "data" / "logs").iterdir())
        yield Story(collector, trace_id, receiver, folder, logs, metrics)


def test_the_senders_trace_goes_on_and_the_event_leads_to_all_the_rest(story: Story) -> None:
    root = only(story.spans, "POST /v1/hooks/{tenant_id}/{source}")
    sent = only(story.spans, "send events.received")
    assert (root.service, root.kind, root.parent) == ("tidegate-ingress", "SERVER", "b" * 16)
    assert {span.name for span in children(story.spans, root)} == {"send payloads", sent.name}
    assert Counter((span.service, span.name) for span in children(story.spans, sent)) == {
        ("tidegate-dedup", "process events.received"): 1,
        ("tidegate-dispatcher", "process events"): 1,
        ("tidegate-delivery", "process events"): 1,
        ("tidegate-dispatcher", "send link"): 4,
        ("tidegate-delivery", "POST"): 2,
    }


def test_each_lease_is_linked_to_the_one_before_and_a_replay_to_what_it_replays(
    story: Story,
) -> None:
    leases, ids = story.leases, [(story.trace_id, span.span_id) for span in story.leases]
    assert [span.links for span in leases] == [
        {},
        {ids[0]: "attempt_before"},
        {ids[1]: "attempt_before"},
        {ids[2]: "replay_of"},
    ]
    ended = [span.attributes.get("tidegate.job.last_run") for span in leases]
    assert ended == [None, "failed", "lost", None]
    jobs = [span.attributes["tidegate.job.id"] for span in leases]
    assert jobs[0] == jobs[1] == jobs[2] != jobs[3]


def test_a_run_has_its_step_and_its_effect_and_a_killed_one_leaves_its_lease(story: Story) -> None:
    runs = [children(story.spans, lease) for lease in story.leases]
    assert [len(found) for found in runs] == [1, 0, 1, 1]
    first, third, replayed = (found[0] for found in runs if found)
    outcomes = [run.attributes["tidegate.outcome"] for run in (first, third, replayed)]
    assert outcomes == ["retry", "failed", "succeeded"]
    assert [run.attributes.get("error.type") for run in (first, third, replayed)] == [
        "TransientError",
        "PermanentError",
        None,
    ]
    assert tree([first, *children(story.spans, first)]) == [first.name, "  step draft"]
    (done,) = children(story.spans, third, "effect email:send")
    (kept,) = children(story.spans, replayed, "effect email:send")
    assert [s.name for s in children(story.spans, done)] == ["claim email:send", "call email:send"]
    assert [s.name for s in children(story.spans, kept)] == ["claim email:send"]


def test_tools_and_receivers_get_the_span_that_calls_them(story: Story) -> None:
    call = only(story.spans, "call email:send")
    posts = [span for span in story.spans if span.name == "POST"]
    got = [headers["traceparent"] for headers, _ in story.receiver.got]
    assert (story.folder / "called").read_text() == f"00-{story.trace_id}-{call.span_id}-01"
    assert got == [f"00-{story.trace_id}-{span.span_id}-01" for span in posts]
    assert [span.attributes["http.response.status_code"] for span in posts] == [503, 200]
    assert posts[1].links == {(story.trace_id, posts[0].span_id): "attempt_before"}


def test_a_batch_is_linked_to_its_records_and_they_to_it(story: Story) -> None:
    sent = only(story.spans, "send events.received")
    for service in ("dedup", "dispatcher", "delivery"):
        (one,) = [
            span
            for span in children(story.spans, sent)
            if span.service == f"tidegate-{service}" and span.name.startswith("process")
        ]
        (batch,) = [
            span
            for span in story.collector.spans
            if span.name.startswith("poll") and span.service == one.service
        ]
        assert (story.trace_id, sent.span_id) in batch.links
        assert one.links == {(batch.trace_id, batch.span_id): "batch"}
        assert batch.attributes["messaging.batch.message_count"] == 1


def test_no_span_shows_a_body_a_query_a_path_an_error_or_an_argument(story: Story) -> None:
    raw = b"".join(span.raw for span in story.collector.spans)
    assert b"tidegate.job.id" in raw
    for secret in (TOLD, "of-the-query", "/hook", "no such customer", "ann@example.com", SECRET):
        assert secret.encode() not in raw.replace(b"/v1/hooks/{tenant_id}/{source}", b""), secret


def test_log_lines_of_a_handler_name_its_span(story: Story) -> None:
    step = only(story.spans, "step draft")
    (line,) = [line for line in story.logs.splitlines() if "a draft is made" in line]
    shown = json.loads(line[line.index("{") :])
    assert (shown["trace_id"], shown["span_id"]) == (story.trace_id, step.span_id)


@pytest.mark.parametrize(
    "histogram",
    [
        "tidegate_ingress_ack_seconds",
        "tidegate_stage_commit_seconds",
        "tidegate_worker_handler_seconds",
        "tidegate_worker_claim_seconds",
    ],
)
def test_histograms_have_the_trace_as_an_exemplar(story: Story, histogram: str) -> None:
    lines = [line for line in story.metrics.splitlines() if line.startswith(f"{histogram}_bucket")]
    assert [line for line in lines if f'trace_id="{story.trace_id}"' in line]


def test_the_fused_stages_are_one_over_grpc(tmp_path: Path) -> None:
    (tmp_path / "replayed").touch()
    with over_grpc() as collector:
        dev = started(tmp_path, collector, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
        trace_id, job_id = deliver(dev)
        becomes(dev, job_id, "succeeded")
        assert stop(dev) == 0
    spans = collector.of(trace_id)
    assert only(spans, "process events.received").service == "tidegate-pipeline"
    assert tree([span for span in spans if "process events" not in span.name]) == [
        "POST /v1/hooks/{tenant_id}/{source}",
        "  send payloads",
        "  send events.received",
        "    send link",
        "      process link",
        "        step draft",
        "        effect email:send",
        "          claim email:send",
        "          call email:send",
    ]
