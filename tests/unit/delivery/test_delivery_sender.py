"""The sender makes each attempt once and tells how it ended, whatever happens in it."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from support.conditions import eventually
from support.recorded_spans import context, linked, parent_id, recording, traceparent

from ingress.schemes import verify
from streams.delivery.attempts import Attempt, Ended
from streams.delivery.egress.policy import EgressPolicy
from streams.delivery.message.signing import new_secret
from streams.delivery.requests import Requests
from streams.delivery.sender import Fault, HttpSender
from streams.errors import ConfigError, PermanentError, TransientError
from streams.process.wall_clock import wall_ms
from streams.serde.delivery_records import Delivery, Outgoing
from streams.serde.records import PayloadRef, SigningKey
from streams.tenants.endpoints import EndpointSettings, endpoint_key, endpoint_record
from streams.tenants.source_keys import Reference, Secret
from streams.vault.key_encryption import local_vault

VAULT = local_vault(b"k" * 32)
LOOPBACK = EgressPolicy(allowed_networks=(ip_network("127.0.0.0/8"),), allow_http=True)
REF = PayloadRef(0, (1,), 13, "key_1")


class Receiver(ThreadingHTTPServer):
    """Remembers requests; answers `status`, or hangs until `let_go` if it is 0."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.let_go = threading.Event()
        self.got: list[tuple[dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((dict(self.headers), body))
        if not self.server.status:
            self.server.let_go.wait(20)
            return
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b"token=s3cret!")

    def log_message(self, *args: Any) -> None:
        """Stay silent."""


class Bodies:
    """Bodies from memory."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.opened: list[PayloadRef] = []

    async def open(self, tenant_id: str, event_id: str, ref: PayloadRef) -> bytes:
        self.opened.append(ref)
        if self.error is not None:
            raise self.error
        return b'{"order": 1.0}'


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.let_go.set()
        server.shutdown()


@pytest.fixture
def bodies() -> Bodies:
    return Bodies()


@pytest.fixture
def sender(bodies: Bodies) -> Iterator[HttpSender]:
    made = HttpSender(LOOPBACK, Requests(VAULT, bodies), Fault())
    made.start()
    yield made
    made.stop()


def attempt(
    url: str, *secrets: Secret, until: int | None = None, timeout: float = 5, **row: Any
) -> Attempt:
    keys = [endpoint_key(VAULT, "acme", "crm", secret) for secret in secrets]
    if until is not None:
        keys[-1] = SigningKey(keys[-1].sealed, until=until)
    headers = {"Authorization": "Bearer s3cret!"}
    record = endpoint_record(VAULT, "acme", "crm", EndpointSettings(url=url), keys, headers, 1)
    given: dict[str, Any] = {
        "delivery_id": "dlv_1",
        "tenant_id": "acme",
        "endpoint_id": "crm",
        "message_id": "evt_1",
        "kind": "event",
        "type": "order.paid",
        "source": "shop",
        "event_id": "evt_1",
        "job_id": None,
        "status": "pending",
        "attempts": 0,
        "round": 0,
        "next_attempt_at": 1,
        "parked_because": None,
        "last_status": None,
        "last_error": None,
        "lane": None,
        "order": 0,
        "url": None,
        "format": "cloudevents",
        "mapping": None,
        "command_id": None,
        "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
        "created_at": 1,
        "updated_at": 1,
    }
    message = Outgoing(
        "evt_1",
        "acme",
        "event",
        "order.paid",
        "shop",
        None,
        1_700_000_000_000,
        "application/json",
        "evt_1",
        None,
        REF,
        None,
        {},
        None,
        1,
    )
    return Attempt(Delivery(**(given | row)), message, record, url, timeout)


def outcome(sender: HttpSender, *attempts: Attempt) -> list[Ended]:
    sender.send(0, attempts)
    ended: list[Ended] = []

    def all_ended() -> bool:
        ended.extend(sender.ended(0))
        return len(ended) == len(attempts)

    eventually(all_ended, what="every attempt has ended")
    return ended


def test_what_is_sent_is_signed_by_every_living_key(sender: HttpSender, receiver: Receiver) -> None:
    newest, old, over = (new_secret().encode() for _ in range(3))
    sent = attempt(receiver.url, newest, old, over, until=wall_ms() - 1)
    (ended,) = outcome(sender, sent)
    assert (ended.error, ended.status, ended.address) == (None, 200, "127.0.0.1")
    ((headers, body),) = receiver.got
    assert headers["webhook-id"] == "evt_1"
    assert headers["Authorization"] == "Bearer s3cret!"
    assert headers["traceparent"] == sent.row.traceparent
    assert b'"data":{"order": 1.0}' in body
    assert len(headers["webhook-signature"].split()) == 2
    for secret in (newest, old):
        verify("standard-webhooks", [secret], headers, body, url="", method="POST", now=None)


def test_a_traceparent_that_is_no_header_does_not_keep_a_message_from_its_receiver(
    sender: HttpSender, receiver: Receiver
) -> None:
    sent = attempt(receiver.url, new_secret().encode(), traceparent="00-\r\nx: y")
    (ended,) = outcome(sender, sent)
    assert (ended.error, ended.status) == (None, 200)
    assert "traceparent" not in receiver.got[0][0]


def test_no_secret_is_in_what_is_kept_of_the_answer(sender: HttpSender, receiver: Receiver) -> None:
    (ended,) = outcome(sender, attempt(receiver.url, new_secret().encode()))
    assert "Bearer s3cret!" not in ended.excerpt + ended.detail


@pytest.mark.parametrize("status", [302, 400, 404, 410, 500, 503])
def test_every_status_but_2xx_is_a_failure(
    sender: HttpSender, receiver: Receiver, status: int
) -> None:
    receiver.status = status
    (ended,) = outcome(sender, attempt(receiver.url, new_secret().encode()))
    assert (ended.status, ended.blame) == (HTTPStatus(status), "receiver")
    assert ended.error


def test_a_body_that_is_gone_blames_the_message_and_one_that_is_late_blames_us(
    sender: HttpSender, receiver: Receiver, bodies: Bodies
) -> None:
    for error, blame in ((PermanentError("gone"), "message"), (TransientError("late"), "us")):
        bodies.error = error
        (ended,) = outcome(sender, attempt(receiver.url, new_secret().encode()))
        assert (ended.blame, bool(ended.error)) == (blame, True)
    assert receiver.got == []


def test_a_secret_that_cannot_be_resolved_sends_nothing(
    sender: HttpSender, receiver: Receiver, tmp_path: Path
) -> None:
    named = attempt(receiver.url, Reference(f"file:{tmp_path}/none"))
    ended = outcome(sender, named, attempt(receiver.url))
    assert [(e.blame, e.error) for e in ended] == [("us", "unsigned")] * 2
    (tmp_path / "none").write_text(new_secret())
    assert outcome(sender, named)[0].error is None


def test_attempts_of_a_partition_that_went_elsewhere_end_unheard(
    sender: HttpSender, receiver: Receiver
) -> None:
    receiver.status = 0
    sender.send(0, [attempt(receiver.url, new_secret().encode())])
    eventually(lambda: receiver.got, what="the attempt is under way")
    sender.forget(0)
    receiver.status = 200
    (ended,) = outcome(sender, attempt(receiver.url, new_secret().encode(), delivery_id="dlv_2"))
    assert ended.row.delivery_id == "dlv_2"


def test_one_that_hangs_holds_up_no_other(sender: HttpSender, receiver: Receiver) -> None:
    receiver.status = 0
    hanging = attempt(receiver.url, new_secret().encode(), timeout=0.5)
    with Receiver() as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        ended = outcome(sender, hanging, attempt(other.url, new_secret().encode()))
        other.shutdown()
    assert [e.error for e in ended] == [None, "timeout"]


def test_few_large_bodies_are_held_at_once_and_small_ones_pass_them(
    sender: HttpSender, receiver: Receiver, bodies: Bodies
) -> None:
    receiver.status = 0
    large = PayloadRef(0, (1,), 25 * 1024 * 1024, "key_1")
    sent = [attempt(receiver.url, new_secret().encode()) for _ in range(6)]
    sender.send(0, [replace(a, message=replace(a.message, payload_ref=large)) for a in sent])
    eventually(lambda: receiver.got, what="a large body is under way")
    with Receiver() as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        (ended,) = outcome(sender, attempt(other.url, new_secret().encode()))
        other.shutdown()
    assert ended.error is None
    assert bodies.opened.count(large) == 1


def test_large_bodies_of_a_tenant_whose_receivers_hang_hold_up_no_other_tenant(
    sender: HttpSender, receiver: Receiver
) -> None:
    receiver.status = 0
    large = PayloadRef(0, (1,), 25 * 1024 * 1024, "key_1")

    def with_large_body(sent: Attempt) -> Attempt:
        return replace(sent, message=replace(sent.message, payload_ref=large))

    hanging = [attempt(receiver.url, new_secret().encode()) for _ in range(6)]
    sender.send(0, [with_large_body(each) for each in hanging])
    eventually(lambda: receiver.got, what="a large body is under way")
    with Receiver() as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        (ended,) = outcome(sender, with_large_body(_of_another_tenant(other.url)))
        other.shutdown()
    assert (ended.row.tenant_id, ended.error) == ("other", None)


def test_large_bodies_of_two_tenants_whose_receivers_hang_hold_up_no_third(
    bodies: Bodies, receiver: Receiver
) -> None:
    receiver.status = 0
    sender = HttpSender(
        replace(LOOPBACK, connections_per_host=50), Requests(VAULT, bodies), Fault()
    )
    sender.start()
    ref = PayloadRef(0, (1,), 2 * 1024 * 1024, "key_1")

    def with_large_body(url: str, tenant_id: str) -> Attempt:
        sent = _of_another_tenant(url, tenant_id)
        return replace(sent, message=replace(sent.message, payload_ref=ref))

    sender.send(0, [with_large_body(receiver.url, "one")] * 40)
    eventually(lambda: len(receiver.got) >= 16, what="bodies of the first are under way")
    sender.send(0, [with_large_body(receiver.url, "two")] * 40)
    eventually(lambda: len(receiver.got) >= 24 + 6, what="bodies of the second are under way")
    with Receiver() as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        (ended,) = outcome(sender, with_large_body(other.url, "three"))
        other.shutdown()
    assert (ended.row.tenant_id, ended.error) == ("three", None)
    receiver.let_go.set()
    sender.stop()


def test_a_machine_without_descriptors_is_to_blame_itself(
    sender: HttpSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    sent = attempt(receiver.url, new_secret().encode())
    monkeypatch.setattr("streams.delivery.egress.connector.socket.socket", fails)
    (ended,) = outcome(sender, sent)
    monkeypatch.undo()
    assert (ended.error, ended.blame) == ("exhausted", "us")


def _of_another_tenant(url: str, tenant_id: str = "other") -> Attempt:
    key = endpoint_key(VAULT, tenant_id, "crm", new_secret().encode())
    record = endpoint_record(VAULT, tenant_id, "crm", EndpointSettings(url=url), [key], {}, 1)
    return replace(attempt(url, tenant_id=tenant_id), endpoint=record)


def test_what_waited_for_its_host_is_signed_when_it_is_sent(
    bodies: Bodies, receiver: Receiver
) -> None:
    receiver.status = 0
    one_each = replace(LOOPBACK, connections_per_host=1)
    sender = HttpSender(one_each, Requests(VAULT, bodies), Fault())
    sender.start()
    sent = [attempt(receiver.url, new_secret().encode(), timeout=1) for _ in range(2)]
    first, second = outcome(sender, *sent)
    sender.stop()
    assert second.at >= first.at + 900


def test_a_sender_that_drains_sends_nothing_more_and_waits_for_what_it_sent(
    bodies: Bodies, receiver: Receiver
) -> None:
    receiver.status = 0
    sender = HttpSender(replace(LOOPBACK, connections_per_host=1), Requests(VAULT, bodies), Fault())
    sender.start()
    under_way, waiting, later = (attempt(receiver.url, new_secret().encode()) for _ in range(3))
    sender.send(0, [under_way, waiting])
    eventually(lambda: receiver.got, what="one request is under way, the other waits for its host")
    assert not sender.drained()
    sender.send(1, [later])
    receiver.let_go.set()
    (ended,) = eventually(lambda: sender.ended(0), what="the first attempt's end")
    eventually(sender.drained, what="nothing is under way")
    sender.stop()
    assert ended.row is under_way.row
    assert len(receiver.got) == 1


def test_a_sender_that_drains_waits_for_no_partition_that_went_elsewhere(
    sender: HttpSender, receiver: Receiver
) -> None:
    receiver.status = 0
    sender.send(0, [attempt(receiver.url, new_secret().encode())])
    eventually(lambda: receiver.got, what="the attempt is under way")
    assert not sender.drained()
    sender.forget(0)
    assert sender.drained()


def test_a_sender_whose_loop_has_ended_is_stopped_without_another_error(bodies: Bodies) -> None:
    broken = replace(LOOPBACK, ca_file=Path("/no/such/file"))
    sender = HttpSender(broken, Requests(VAULT, bodies), Fault())
    with pytest.raises(ConfigError):
        sender.start()
    sender.stop()


def test_what_is_not_wanted_any_more_when_its_turn_comes_is_not_sent(
    sender: HttpSender, receiver: Receiver
) -> None:
    late = replace(attempt(receiver.url, new_secret().encode()), wanted=lambda: False)
    (ended,) = outcome(sender, late)
    assert (ended.error, ended.blame) == ("withdrawn", "nobody")
    assert receiver.got == []


def test_an_attempt_has_a_span_which_its_receiver_gets(
    sender: HttpSender, receiver: Receiver
) -> None:
    secret = new_secret().encode()
    url = f"{receiver.url}/T0ken-in-the-path?key=of-the-query"
    with recording() as found:
        outcome(sender, attempt(url, secret))
        receiver.status = 503
        outcome(sender, attempt(url, secret, attempts=1))
        eventually(lambda: len(found) == 2, what="both spans ended")
    first, second = found.all
    got = [headers["traceparent"] for headers, _ in receiver.got]
    assert got == [traceparent(first), traceparent(second)]
    assert parent_id(first) == parent_id(second) == int("b" * 16, 16)
    assert (linked(first), linked(second)) == ([], [(context(first).span_id, "attempt_before")])
    assert dict(second.attributes or {}) == {
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "server.port": int(receiver.url.split(":")[2].split("/")[0]),
        "tidegate.attempt": 2,
        "tidegate.tenant.id": "acme",
        "tidegate.endpoint.id": "crm",
        "tidegate.delivery.id": "dlv_1",
        "http.response.status_code": 503,
        "error.type": "503",
    }
    for hidden in ("T0ken", "of-the-query", "s3cret!", secret.decode()):
        assert hidden not in found.text()


@pytest.mark.parametrize("carrying", [None, f"00-{'a' * 32}-{'b' * 16}-00", "no trace"])
def test_an_attempt_whose_trace_is_not_sampled_has_no_span(
    sender: HttpSender, receiver: Receiver, carrying: str | None
) -> None:
    with recording() as found:
        outcome(sender, attempt(receiver.url, new_secret().encode(), traceparent=carrying))
    assert found.all == []


def test_an_url_that_cannot_be_parsed_costs_no_attempt(sender: HttpSender) -> None:
    with recording() as found:
        (ended,) = outcome(sender, attempt("http://[::1:99999/x", new_secret().encode()))
        eventually(lambda: len(found) == 1, what="its span ended")
    assert ended.error == "denied"
    assert (found.all[0].attributes or {})["error.type"] == "denied"
