"""The process of the delivery stage on a real broker: no accepted delivery is lost (G6, G7, G8)."""

from __future__ import annotations

import base64
import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook
from support.conditions import eventually
from support.faulty_process import FaultyProcess
from support.operator_cluster import make_event
from support.stage_process import Cluster

from streams.process.wall_clock import wall_ms
from streams.serde import ids
from streams.serde.codec import DELIVERY, DELIVERY_ATTEMPT, ENDPOINT_STATE, ENVELOPE, TENANT
from streams.serde.delivery_records import Delivery, DeliveryAttempt, EndpointState
from streams.serde.keys import tenant_key
from streams.serde.records import PayloadRef, TenantRecord
from streams.tenants.endpoints import EndpointSettings, endpoint_key, endpoint_record
from streams.topology.load import load
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import local_vault

pytestmark = pytest.mark.broker

BODY = b'{"order": 1.0}'
HOUR = 3600
SECRET = b"whsec_" + base64.b64encode(b"s" * 32)
VAULT_KEY = b"v" * 32
TOPOLOGY = "partitions: 1\n"


class Receiver(ThreadingHTTPServer):
    """Remembers requests; answers each by the next of `answers`, 0 for a hang, then by 200."""

    daemon_threads = True

    def __init__(self, *answers: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = list(answers)
        self.let_go = threading.Event()
        self.got: list[tuple[dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.got]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.answers.pop(0) if self.server.answers else 200
        self.server.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
        if not status:
            self.server.let_go.wait(60)
            return
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.server.url)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Stay silent."""


@dataclass
class Stage:
    """The topics of the stage, its processes, and the tenant `acme`, whose events it delivers."""

    cluster: Cluster
    folder: Path
    receiver: Receiver
    processes: list[FaultyProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "vault.key").write_bytes(VAULT_KEY)
        (self.folder / "topology.yaml").write_text(TOPOLOGY)
        self._vault = local_vault(VAULT_KEY)
        record = new_key_record(self._vault, "acme")
        self._data_key = DataKey(self._vault, record)
        self._bodies = 0
        self._set(record)

    def start(self, instance: str = "0", wall_clock_off: float = 0) -> FaultyProcess:
        """Start a process of the stage; return once it works."""
        environ = self.cluster.environ(self.folder / f"data{instance}", instance) | {
            "TIDEGATE_TOPOLOGY": str(self.folder / "topology.yaml"),
            "TIDEGATE_VAULT_KEY_FILE": str(self.folder / "vault.key"),
            "TIDEGATE_EGRESS_ALLOW_HTTP": "true",
            "TIDEGATE_EGRESS_ALLOW_NETWORKS": "127.0.0.0/8",
            "WALL_CLOCK_OFF": str(wall_clock_off),
        }
        log = self.folder / f"{len(self.processes)}.log"
        self.processes.append(FaultyProcess("delivery_stage", log, environ))
        self.processes[-1].wait_for('"running"')
        return self.processes[-1]

    def endpoint(self, **settings: Any) -> None:
        now = wall_ms()
        given: dict[str, Any] = {
            "url": self.receiver.url, "retry": (0.1, 0.1, 0.1), "timeout_seconds": 1,
            "created_at": now, "set_at": now,
        }  # fmt: skip
        key = endpoint_key(self._vault, "acme", "crm", SECRET)
        chosen = EndpointSettings(**(given | settings))
        self._set(endpoint_record(self._vault, "acme", "crm", chosen, (key,), {}, now))

    def event(self, name: str = "k1") -> str:
        """An event whose body stands sealed on `payloads`; returns its id."""
        event_id = f"evt_{name}"
        sealed = self._data_key.seal(event_id, 0, BODY)
        self.cluster.send("payloads", [(event_id.encode(), sealed)])
        ref = PayloadRef(0, (self._bodies,), len(BODY), self._data_key.key_id)
        self._bodies += 1
        envelope = make_event(name, payload_ref=ref)
        self.cluster.send("events", [(b"acme", ENVELOPE.encode(envelope))])
        return event_id

    def rows(self) -> list[Delivery]:
        """The newest state of each row."""
        told = {m.key(): DELIVERY.decode(m.value()) for m in self.cluster.read("deliveries")}
        return list(told.values())

    def row_of(self, event_id: str, status: str) -> Delivery:
        """The row of an event for the endpoint, once it has the status."""
        wanted = ids.delivery_id("acme", "crm", event_id)

        def found() -> Delivery | None:
            same = [row for row in self.rows() if row.delivery_id == wanted]
            return same[0] if same and same[0].status == status else None

        return eventually(found, 60, what=f"{event_id} is {status}")

    def attempts(self) -> list[DeliveryAttempt]:
        return [
            DELIVERY_ATTEMPT.decode(m.value()) for m in self.cluster.read("deliveries.attempts")
        ]

    def endpoint_states(self) -> list[EndpointState]:
        return [ENDPOINT_STATE.decode(m.value()) for m in self.cluster.read("deliveries.endpoints")]

    def _set(self, record: TenantRecord) -> None:
        key = tenant_key(record.tenant_id, record.kind, record.id)
        self.cluster.send("tenants", [(key, TENANT.encode(record))])


@pytest.fixture
def stage(kafka: Any, tmp_path: Path) -> Iterator[Stage]:
    file = tmp_path / "topology.yaml"
    file.write_text(TOPOLOGY)
    cluster = Cluster(kafka, load(file))
    cluster.create()
    with Receiver() as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        made = Stage(cluster, tmp_path, receiver)
        yield made
        receiver.let_go.set()
        for process in made.processes:
            process.kill()
            print(process.lines)
        receiver.shutdown()


def test_an_event_is_posted_once_signed_and_its_row_survives_the_loss_of_the_state(
    stage: Stage,
) -> None:
    first = stage.start()
    stage.endpoint(format="raw")
    event_id = stage.event()
    row = stage.row_of(event_id, "delivered")
    headers, body = stage.receiver.got[0]
    Webhook(SECRET.decode()).verify(body, headers)
    assert (body, headers["webhook-id"], row.attempts) == (BODY, event_id, 1)
    first.kill()
    shutil.rmtree(stage.folder / "data0")
    stage.start()
    later = stage.row_of(stage.event("k2"), "delivered")
    assert stage.rows() == [row, later]
    assert stage.receiver.ids == [event_id, "evt_k2"]
    assert len(stage.attempts()) == 2


def test_an_attempt_whose_end_was_not_recorded_is_made_again_under_the_same_id(
    stage: Stage,
) -> None:
    stage.receiver.answers = [0]
    killed = stage.start()
    stage.endpoint(timeout_seconds=60)
    event_id = stage.event()
    eventually(lambda: stage.receiver.got, what="the request")
    killed.kill()
    stage.start()
    row = stage.row_of(event_id, "delivered")
    assert (stage.receiver.ids, row.attempts) == ([event_id] * 2, 1)
    assert len(stage.attempts()) == len(stage.rows()) == 1


@pytest.mark.parametrize("step", ["before_commit", "after_commit"])
def test_a_row_whose_process_dies_around_its_commit_is_delivered_once(
    stage: Stage, step: str
) -> None:
    killed = stage.start()
    stage.endpoint()
    stage.row_of(stage.event("k0"), "delivered")
    killed.points.arm(step, signal.SIGKILL)
    event_id = stage.event()
    killed.await_fault(step, signal.SIGKILL)
    stage.start()
    stage.row_of(event_id, "delivered")
    assert stage.receiver.ids == ["evt_k0", event_id]


def test_the_heir_of_a_partition_makes_an_attempt_again_that_was_under_way(stage: Stage) -> None:
    stage.receiver.answers = [0]
    former = stage.start("0")
    stage.endpoint(timeout_seconds=60)
    event_id = stage.event()
    eventually(lambda: stage.receiver.got, what="the request")
    assert former.stop() == 0
    stage.start("1")
    row = stage.row_of(event_id, "delivered")
    assert (stage.receiver.ids, row.attempts) == ([event_id] * 2, 1)


def test_what_happened_before_the_first_start_is_delivered(stage: Stage) -> None:
    stage.endpoint()
    names = [stage.event(f"k{number}") for number in range(20)]
    stage.start()
    for name in names:
        stage.row_of(name, "delivered")
    assert sorted(stage.receiver.ids) == sorted(names)


def test_retries_come_after_the_wall_clock_was_set_back(stage: Stage) -> None:
    stage.receiver.answers = [0, 302, 503]
    first = stage.start()
    stage.endpoint(retry=(5, 0.1, 0.1))
    event_id = stage.event()
    eventually(stage.attempts, what="the first attempt's end")
    first.kill()
    assert len(stage.attempts()) == 1
    stage.start(wall_clock_off=-HOUR)
    row = stage.row_of(event_id, "delivered")
    assert row.attempts == len(stage.receiver.got) == 4
    assert set(stage.receiver.ids) == {event_id}


def test_410_disables_the_endpoint_and_parks_its_rows(stage: Stage) -> None:
    stage.receiver.answers = [410]
    stage.start()
    stage.endpoint()
    row = stage.row_of(stage.event(), "parked")
    later = stage.row_of(stage.event("k2"), "parked")
    assert row.parked_because == later.parked_because == "endpoint_disabled"
    assert stage.endpoint_states()[-1].disabled_because == "gone"
    assert len(stage.receiver.got) == 1


@pytest.mark.parametrize("url", ["", "http://nowhere.invalid/hook"], ids=["silence", "wrong name"])
def test_a_row_that_never_gets_through_is_dead_after_its_last_attempt(
    stage: Stage, url: str
) -> None:
    stage.receiver.answers = [0, 302, 503]
    stage.start()
    stage.endpoint(retry=(0.1, 0.1), url=url or stage.receiver.url)
    row = stage.row_of(stage.event(), "dead")
    assert row.attempts == len(stage.attempts()) == 3
