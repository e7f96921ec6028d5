"""Every process works with exactly the rights that `topology describe --acls` prints.

The authorizer's own log tells by which right each request was allowed. So one run of everything
shows both that nothing was denied, and that each right was needed.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from support.conditions import eventually
from support.hook_receiver import HookReceiver, serving
from support.link_services import dialed
from support.linked_workers import hello
from support.own_users import OwnUsers, own_users
from support.whole_calls import TOKEN, Calls

from streams.serde.link.messages import Welcome
from streams.topology.load import load

pytestmark = pytest.mark.broker

FUSED = ("ingress", "pipeline", "delivery", "operator", "analytics", "worker-default")
APART = ("dedup", "scheduler", "dispatcher")
NOTE = {"incident_note": "the cause is mended"}
ODD = {
    "events.received": "dedup",
    "schedule": "scheduler",
    "events": "dispatcher",
    "jobs.commands": "dispatcher",
    "jobs": "delivery",
    "deliveries.commands": "delivery",
    "tenants": "ingress",
    "rejections": "operator",
}
"""By topic who makes a dead letter of a record that cannot be read."""


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[OwnUsers]:
    with own_users(tmp_path) as found:
        yield found


@pytest.mark.long
def test_everything_works_with_the_rights_that_are_printed(processes: OwnUsers) -> None:
    with serving(HookReceiver()) as receiver:
        the_fused_stages_work(processes, receiver)
    assert processes.denied() == []


@pytest.mark.chaos
def test_everything_works_in_both_layouts_and_each_right_is_needed(processes: OwnUsers) -> None:
    with serving(HookReceiver()) as receiver:
        calls = the_fused_stages_work(processes, receiver)
        stages_restore_and_share(processes, calls)
        the_layout_changes_and_back(processes, calls)
    settings_change(processes)
    for name in list(processes.running):
        processes.stop(name)
    assert processes.denied() == []
    assert sorted(map(str, processes.unused())) == []


def the_fused_stages_work(processes: OwnUsers, receiver: HookReceiver) -> Calls:
    start(processes, *FUSED)
    calls = processes.calls()
    calls.make_source()
    calls.ask("PUT", "/v1/tenants/acme/endpoints/crm", {"url": receiver.url, "events": ["*"]})
    assert calls.result(calls.deliver(1)) == "answer 1"
    eventually(lambda: receiver.got, what="the outgoing delivery")
    submit(calls, type="nobody.fused", id=3)
    runs_jobs_of_all_kinds(calls, "hourly-when-fused")
    a_redelivery_reaches_dedup(processes, calls)
    a_body_waits_in_the_quarantine(processes, calls)
    an_operator_asks_for_more(processes, calls)
    odd_records_are_set_aside_and_sent_again(processes, calls)
    waits_for_a_worker(calls, "nobody.fused")
    return calls


def start(processes: OwnUsers, *names: str) -> None:
    for name in names:
        processes.start(name)
    processes.ready(*(f"{name}-0" for name in names))


def runs_jobs_of_all_kinds(calls: Calls, schedule: str) -> None:
    """One that is late, one that fails and is replayed, and those of a new schedule."""
    late, bad = submit(calls, id=2, delay=1), submit(calls, id=0)
    assert calls.result(late) == "answer 2"
    eventually(lambda: shown(calls, f"/v1/dlq/{bad}"), what="the dead letter")
    again = calls.ask("POST", f"/v1/dlq/{bad}/replay", NOTE)["job_id"]
    eventually(lambda: shown(calls, f"/v1/dlq/{again}"), what="the replay's dead letter")
    asks_for_an_approval(calls)
    assert calls.result(submit(calls, type="tree")) == "answer 5"
    asked = {"id": schedule, "every_seconds": 3600, "job": "answer", "input": {"id": 6}}
    calls.ask("POST", "/v1/tenants/acme/schedules", asked)
    eventually(lambda: shown(calls, f"/v1/tenants/acme/schedules/{schedule}"), what="the schedule")


def asks_for_an_approval(calls: Calls) -> None:
    """A job asks a person, who approves."""
    asking = submit(calls, type="ask")
    asked = "/v1/approvals?tenant_id=acme&status=pending"
    eventually(lambda: calls.ask("GET", asked)["approvals"], what="the approval is asked for")
    (approval,) = calls.ask("GET", asked)["approvals"]
    calls.ask("POST", f"/v1/approvals/{approval['approval_id']}/approve", {"note": "send it"})
    assert calls.result(asking) is True


def waits_for_a_worker(calls: Calls, type: str) -> None:
    """A job of a type that no worker handles is shown as held, and near its type's cap."""
    for path in ("/v1/held", "/v1/backlog"):
        eventually(lambda: type in json.dumps(calls.ask("GET", path)), what=f"{type} in {path}")  # noqa: B023


def a_redelivery_reaches_dedup(processes: OwnUsers, calls: Calls, number: int = 1) -> None:
    """Through an ingress that does not remember the first delivery."""
    before = duplicates(calls)
    processes.start("ingress", "1")
    processes.ready("ingress-1")
    processes.calls("ingress-1").deliver(number)
    eventually(lambda: duplicates(calls) > before, what="the duplicate")
    processes.stop("ingress-1")


def duplicates(calls: Calls) -> int:
    return sum(each["count"] for each in calls.ask("GET", "/v1/duplicates")["duplicates"])


def a_body_waits_in_the_quarantine(processes: OwnUsers, calls: Calls) -> None:
    """A delivery without a type waits until the mapping is mended; an unsigned one is rejected.

    The mapping is mended under a condition: all operators share the transactional id of that.
    """
    body = b'{"id": 4}'
    asked = {"url": "http://ingress/v1/hooks/acme/shop", "headers": {}}
    signed = calls.ask(
        "POST",
        "/v1/tenants/acme/sources/shop/sign",
        asked | {"body_base64": base64.b64encode(body).decode()},
    )
    url = f"{calls.ingress}/v1/hooks/acme/shop"
    with urlopen(Request(url, body, dict(signed["headers"])), None, 30) as answer:
        waiting = json.loads(answer.read())["event_id"]
    with pytest.raises(HTTPError, match="401"):
        urlopen(Request(url, body), None, 30)
    mended = {"scheme": "github", "mapping": {"event_type": "type || 'ticket.created'"}}
    condition = {"If-Match": "*"}
    calls.ask("PUT", "/v1/tenants/acme/sources/shop", mended, **condition)
    eventually(lambda: shown(calls, f"/v1/quarantine/{waiting}"), what="the body is shown")
    job = calls.ask("POST", f"/v1/quarantine/{waiting}/release", {"note": "mended"})["job_id"]
    assert calls.result(job) == "answer 4"


def an_operator_asks_for_more(processes: OwnUsers, calls: Calls) -> None:
    """A body, a delivery once more, the figures, a replay of old events, and a bulk act."""
    event = calls.ask("GET", "/v1/events")["events"][0]["event_id"]
    token = {"Authorization": f"Bearer {TOKEN}"}
    kept = Request(f"{calls.operator}/v1/events/{event}/payload", headers=token)
    with urlopen(kept, None, 30) as answer:
        assert answer.read()
    (sent, *_) = calls.ask("GET", "/v1/deliveries?tenant_id=acme")["deliveries"]
    retried = Request(
        f"{calls.operator}/v1/deliveries/{sent['delivery_id']}/retry", b"", token, method="POST"
    )
    with urlopen(retried, None, 30) as answer:
        assert answer.status == 202
    asked = {"note": "again", "tenant_id": "acme", "job": "answer"}
    replay = f"/v1/replays/{calls.ask('POST', '/v1/replays', asked)['replay_id']}"
    eventually(lambda: calls.ask("GET", replay)["status"] == "done", what="the replay is done")
    all_ = {"note": "again", "action": "deliveries.retry", "filter": {"tenant_id": "acme"}}
    act = f"/v1/bulk/{calls.ask('POST', '/v1/bulk', all_)['bulk_id']}"
    eventually(lambda: calls.ask("GET", act)["status"] == "done", what="the bulk act is done")
    figures = f"http://127.0.0.1:{processes.ports['analytics-0']}"
    found = Calls(figures, figures).ask("GET", "/v1/analytics/summary?tenant_id=acme")
    assert found["events"]


def odd_records_are_set_aside_and_sent_again(processes: OwnUsers, calls: Calls) -> None:
    """What cannot be read is in the dead letters, and goes to the stages' inputs again."""
    send_odd(processes, *ODD)
    letters = {f"{stage}:{topic}:0:" for topic, stage in ODD.items()}
    eventually(lambda: letters <= letters_of(calls), what="the dead letters")
    assert calls.ask("POST", "/v1/dlq:replay", NOTE | {"kind": "record"})["records"] >= 6
    eventually(lambda: outcomes(calls) == {"failed"}, what="each stage has answered")


def outcomes(calls: Calls) -> set[str | None]:
    """What became of the records that were sent in again."""
    found = calls.ask("GET", "/v1/dlq?kind=record&limit=200")["dead_letters"]
    return {each["replay_outcome"] for each in found if each["replayed_at"]}


def letters_of(calls: Calls) -> set[str]:
    """The dead letters of records, without their offsets."""
    found = calls.ask("GET", "/v1/dlq?kind=record&limit=200")["dead_letters"]
    return {each["id"][: each["id"].rindex(":") + 1] for each in found}


def send_odd(processes: OwnUsers, *topics: str) -> dict[str, int]:
    """Write a record that nobody can read to each topic; returns the offsets."""
    written: list[Message] = []
    producer = Producer(processes.kafka.client())
    for topic in topics:
        name = processes.prefix + topic
        producer.produce(
            name, b"no record", b"odd", 0, on_delivery=lambda _, message: written.append(message)
        )
    assert producer.flush(30) == 0
    return {(m.topic() or "").removeprefix(processes.prefix): m.offset() or 0 for m in written}


def stages_restore_and_share(processes: OwnUsers, calls: Calls) -> None:
    """Stages come back without their disks, one told to set a record aside; another joins."""
    processes.lose("pipeline")
    processes.lose("delivery")
    offset = send_odd(processes, "duplicates")["duplicates"]
    processes.start("pipeline", TIDEGATE_SET_ASIDE=f"duplicates:0:{offset}")
    processes.start("delivery")
    processes.ready("pipeline-0", "delivery-0")
    letter = f"/v1/dlq/dispatcher:duplicates:0:{offset}"
    eventually(lambda: shown(calls, letter), what="it is set aside")
    calls.ask("POST", f"{letter}/replay", NOTE)
    processes.start("pipeline", "1")
    processes.ready("pipeline-0", "pipeline-1")
    answered = {"taken", "failed"}  # one that is still told to set it aside does so again
    eventually(lambda: calls.ask("GET", letter)["replay_outcome"] in answered, what="its answer")
    eventually(lambda: processes.running["pipeline-1"].share, what="it has a share")
    assert calls.result(calls.deliver(10)) == "answer 10"
    a_worker_dials_with_a_token_of_its_own(processes, calls, "pipeline-0")


def the_layout_changes_and_back(processes: OwnUsers, calls: Calls) -> None:
    processes.stop("pipeline-0")
    processes.stop("pipeline-1")
    processes.command("topology", "topology", "layout", "apart")
    start(processes, *APART)
    processes.stop("worker-default-0")
    start(processes, "worker-default")
    assert calls.result(calls.deliver(11)) == "answer 11"
    submit(calls, type="nobody.apart", id=3)
    runs_jobs_of_all_kinds(calls, "hourly-when-apart")
    a_redelivery_reaches_dedup(processes, calls, 11)
    send_odd(processes, "events.received", "schedule", "events")
    for stage in APART:
        processes.running[f"{stage}-0"].wait_for("record sent to dlq")
    waits_for_a_worker(calls, "nobody.apart")
    for stage in APART:
        processes.lose(stage)
    start(processes, *APART)
    assert calls.result(calls.deliver(12)) == "answer 12"
    a_worker_dials_with_a_token_of_its_own(processes, calls, "dispatcher-0")
    for stage in APART:
        processes.stop(f"{stage}-0")
    processes.command("topology", "topology", "layout", "fused")


def a_worker_dials_with_a_token_of_its_own(processes: OwnUsers, calls: Calls, owner: str) -> None:
    """The owner notes its use at the latest when it ends."""
    asked = {"name": owner, "role": "worker", "tenants": ["*"]}
    token = calls.ask("POST", "/v1/tokens", asked)["token"]
    port = processes.ports[f"link of {owner}"]
    eventually(lambda: asyncio.run(is_taken(port, token)), what="the token is known")


async def is_taken(port: int, token: str) -> bool:
    async with dialed(port, token) as worker:
        await worker.send(hello(f"w-{port}"))
        return isinstance(await worker.next(), Welcome)


def settings_change(processes: OwnUsers) -> None:
    """Every topic gets its settings back."""
    admin = processes.kafka.admin
    entry = ConfigEntry("segment.bytes", "1048576", incremental_operation=AlterConfigOpType.SET)
    changed = [
        ConfigResource(
            ConfigResource.Type.TOPIC, processes.prefix + name, incremental_configs=[entry]
        )
        for name in load().topics
    ]
    for done in admin.incremental_alter_configs(changed).values():
        done.result(10)
    processes.apply()
    assert (
        "nothing to change"
        in processes.command("topology", "topology", "plan", "--allow-unsafe").stdout
    )


def submit(calls: Calls, type: str = "answer", delay: float = 0, **input: Any) -> str:
    body = {"type": type, "input": input, "delay_seconds": delay}
    return str(calls.ask("POST", "/v1/tenants/acme/jobs", body)["job_id"])


def shown(calls: Calls, path: str) -> Any:
    """What the API answers; None while it shows nothing there."""
    try:
        return calls.ask("GET", path)
    except HTTPError:
        return None
