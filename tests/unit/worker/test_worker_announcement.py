"""At its start a worker announces the job types of its application, in one record."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, create_model
from support.worker_bench import bench

from streams import App, Context, Retry
from streams.errors import ConfigError
from streams.serde.link.messages import Announce
from streams.serde.records import AnnouncedType, JobTypes


class Order(BaseModel):
    order_id: str


def shop() -> App:
    app = App("shop", version="7")

    @app.job("ship", retry=Retry(2, (1, 2)), timeout=9, scopes={"post", "email"})
    async def ship(ctx: Context[Order]) -> list[Order]:
        return [ctx.input]

    @app.job("report", scopes=())
    async def report(ctx: Context) -> dict[str, int]:
        return {}

    return app


async def test_a_worker_announces_each_type_with_its_policy_and_schemas() -> None:
    async with bench(shop()) as at:
        (sent,) = at.owner.of(Announce)
    found = sent.types
    ship, report = found.types
    assert found == JobTypes("shop", "7", (ship, report))
    assert json.loads(ship.input_schema or "")["required"] == ["order_id"]
    assert json.loads(ship.result_schema or "")["type"] == "array"
    policy = ship.max_attempts, ship.backoff, ship.timeout_seconds, ship.tools
    assert policy == (2, (1.0, 2.0), 9.0, ("email", "post"))
    assert report == AnnouncedType("report", 5, (10, 30, 120, 600), 300.0, (), None, None)


def test_types_that_are_too_large_for_one_record_end_the_start() -> None:
    app = App("shop")
    fields = {f"field_{n}_{'x' * 60}": (str, ...) for n in range(2_000)}
    large = create_model("Large", **fields)  # type: ignore[call-overload]
    for number in range(5):

        @app.job(f"job_{number}")
        async def handler(ctx: Context[large]) -> None: ...  # type: ignore[valid-type]

    with pytest.raises(ConfigError, match=r"app 'shop': .* more than 716,800: "):
        app.check_effects()
