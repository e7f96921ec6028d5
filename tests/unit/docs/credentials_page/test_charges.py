import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from charges import app

from streams import PermanentError
from streams.testing import Bench, Job

TOPOLOGY = Path(__file__).with_name("charges.yaml")


class Payments(BaseHTTPRequestHandler):
    """The payment service, as the test wants it."""

    status = 200
    asked: list[dict[str, str]] = []  # noqa: RUF012

    def do_POST(self) -> None:
        self.asked.append(dict(self.headers))
        body = json.dumps({"charge": "ch_1"}).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def order() -> Iterator[dict[str, Any]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Payments)
    Thread(target=server.serve_forever, daemon=True).start()
    Payments.status, Payments.asked = 200, []
    yield {"order": "o-1", "cents": 500, "service": f"http://127.0.0.1:{server.server_port}"}
    server.shutdown()
    server.server_close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app, topology=TOPOLOGY, strict=False) as bench:
        bench.credential("payments", "key-of-the-test", seconds=60)
        yield bench


def charged(bench: Bench, order: dict[str, Any], tenant: str = "acme") -> Job:
    return bench.submit("charge_order", order, tenant=tenant).run()


def test_the_service_gets_the_credential_and_the_key(bench: Bench, order: dict[str, Any]) -> None:
    job = charged(bench, order)
    assert job.result == {"charge": "ch_1"}
    assert Payments.asked[0]["Authorization"] == "Bearer key-of-the-test"
    assert Payments.asked[0]["Idempotency-Key"] == job.effects[0].idempotency_key


def test_no_other_tenant_may_have_it(bench: Bench, order: dict[str, Any]) -> None:
    job = charged(bench, order, tenant="corp")
    assert job.status == "failed"
    assert "is not for jobs of type 'charge_order' of tenant 'corp'" in str(job.error)


def test_a_rotated_value_is_seen_within_its_time(bench: Bench, order: dict[str, Any]) -> None:
    charged(bench, order)
    bench.credential("payments", "the-next-key")
    bench.advance(60)
    charged(bench, order)
    assert Payments.asked[1]["Authorization"] == "Bearer the-next-key"


def test_a_revoked_one_fails_the_job(bench: Bench, order: dict[str, Any]) -> None:
    bench.credential("payments", raises=PermanentError("was revoked at 2026-11-29T19:00:00Z"))
    job = charged(bench, order)
    assert job.status == "failed"
    assert str(job.error).endswith("was revoked at 2026-11-29T19:00:00Z")


def test_a_request_that_was_not_sent_did_nothing(bench: Bench, order: dict[str, Any]) -> None:
    job = bench.submit("charge_order", {**order, "service": "http://127.0.0.1:9"}).run(runs=1)
    assert job.effects[0].status == "failed"
    assert "nothing was sent" in str(job.error)


@pytest.mark.parametrize(("status", "outcome"), [(422, "failed"), (500, "unknown")])
def test_a_status_says_what_is_known(
    bench: Bench, order: dict[str, Any], status: int, outcome: str
) -> None:
    Payments.status = status
    job = bench.submit("charge_order", order).run(runs=1)
    assert job.effects[0].status == outcome
