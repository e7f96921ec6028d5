"""The vendor insists, and the naive handler pays for it."""

from __future__ import annotations

import pytest
from aiohttp import web

from streams.demo.run import before as before_module
from streams.demo.run.before import run_before
from streams.demo.world.delivery import Vendor, sign
from streams.demo.world.scenario import compose


async def test_the_naive_handler_repeats_every_effect_of_a_redelivery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(before_module, "PATIENCE_SECONDS", 60)  # on a busy machine, too
    scenario = compose(30, 3, seed=1)
    effects = sum(len(ticket.actions) for ticket in scenario.tickets)
    before = await run_before(scenario, killed=False)
    assert before["effects_executed"] == 3 * effects
    assert before["duplicate_effects"] == 2 * effects
    assert before["deliveries"] == 90


async def test_a_handler_that_dies_before_its_answer_repeats_once_more() -> None:
    scenario = compose(60, 2, seed=1)
    effects = sum(len(ticket.actions) for ticket in scenario.tickets)
    before = await run_before(scenario, killed=True)
    assert before["duplicate_effects"] > effects


def test_a_signature_is_zendesks() -> None:
    # Computed with: printf '%s' "$STAMP$BODY" | openssl dgst -sha256 -hmac "$KEY" -binary | base64
    given = sign(b"dGhpc19zZWNyZXQ=", "2026-01-01T00:00:00Z", b'{"id":"1"}')
    assert given == "H7nUqyet8ERKstyAJeSZy0KrD7MSeCYKlKH1spxw8E4="


class _Ingress:
    """Answers with the given statuses, one a request, then 202."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.bodies: list[bytes] = []

    async def take(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        status = self.statuses.pop(0) if self.statuses else 202
        return web.json_response(
            {"status": "accepted", "event_id": "evt_1", "job_id": "job_1"}, status=status
        )


async def serve(ingress: _Ingress) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.router.add_post("/v1/hooks/{tenant}/{source}", ingress.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def test_a_refused_delivery_is_sent_again_until_it_is_taken() -> None:
    scenario, ingress = compose(30, 1, seed=1), _Ingress(503, 500)
    runner, url = await serve(ingress)
    vendor = Vendor(scenario, [url], concurrency=4)
    await vendor.open()
    await vendor.deliver([(scenario.tickets[0],)])
    await vendor.close()
    await runner.cleanup()
    assert [answer.status for answer in vendor.answers] == [202]
    assert ingress.bodies == [scenario.tickets[0].body()] * 3
    assert vendor.refused == []


async def test_a_dead_ingress_is_passed_over_for_the_living_one() -> None:
    scenario, ingress = compose(30, 1, seed=1), _Ingress()
    gone, dead_url = await serve(_Ingress())
    await gone.cleanup()
    runner, url = await serve(ingress)
    vendor = Vendor(scenario, [dead_url, url], concurrency=4)
    await vendor.open()
    await vendor.deliver([(ticket,) for ticket in scenario.tickets[:4]])
    await vendor.close()
    await runner.cleanup()
    assert len(vendor.answers) == 4
    assert vendor.broken == []
