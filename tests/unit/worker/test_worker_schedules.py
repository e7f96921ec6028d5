"""`@app.schedule`: what is declared, what is refused at the import, and what a worker sends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from support.worker_bench import bench

from streams.errors import ConfigError
from streams.serde.records import DeclareSchedules
from streams.worker.app import App
from streams.worker.handler.context import Context


def app_with_schedules() -> App:
    app = App("support")

    @app.schedule("0 9 * * mon-fri", tz="Europe/Berlin")
    @app.job("report")
    async def report(ctx: Context) -> None: ...

    @app.job("sync")
    @app.schedule(every_seconds=60, tenant="acme", input={"deep": True})
    async def sync(ctx: Context) -> None: ...

    app.schedule(at=datetime(2030, 1, 1, tzinfo=UTC), job="sync", id="once", tenants=["a", "b"])
    return app


def test_schedules_belong_to_the_handler_that_they_decorate_or_name() -> None:
    found = app_with_schedules().schedules()
    assert [(s.schedule_id, s.tenant, s.spec.job) for s in found] == [
        ("report", "*", "report"),
        ("sync", "acme", "sync"),
        ("once", "a", "sync"),
        ("once", "b", "sync"),
    ]
    assert (found[0].spec.cron, found[0].spec.tz) == ("0 9 * * mon-fri", "Europe/Berlin")
    assert (found[1].spec.every_ms, found[1].spec.input) == (60_000, '{"deep":true}')
    assert found[2].spec.at == 1_893_456_000_000


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cron": "0 9 * *"}, "five fields"),
        ({"cron": "0 9 31 2 *"}, "cron"),
        ({"cron": "0 9 * * *", "tz": "Europe/Bonn"}, "Europe/Bonn"),
        ({}, "exactly one"),
        ({"cron": "0 9 * * *", "overlap": "both"}, "queue_one"),
        ({"cron": "0 9 * * *", "missed": "all(0)"}, "latest, skip"),
        ({"cron": "0 9 * * *", "id": "a b"}, "letters, digits"),
        ({"cron": "0 9 * * *", "tenants": []}, "name tenants"),
        ({"cron": "0 9 * * *", "input": {1, 2}}, "schedule"),
        ({"at": "tomorrow"}, "RFC 3339"),
        ({"at": datetime(2030, 1, 1)}, "time zone"),
        (
            {"cron": "0 9 * * *", "until": "2020-01-01T00:00:00Z", "from_": "2021-01-01T00:00:00Z"},
            "until",
        ),
    ],
    ids=str,
)
def test_a_wrong_argument_fails_at_the_import_and_is_named(
    given: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match="schedule") as raised:
        App("support").schedule(**given, job="report")
    assert told in str(raised.value)


def test_one_whose_times_are_over_does_not_end_the_application() -> None:
    app = app_with_schedules()
    app.schedule(at="2020-01-01T00:00:00Z", job="sync", id="past")
    app.check_effects()


def test_a_schedule_needs_a_job_type_and_an_id_of_its_own() -> None:
    app = app_with_schedules()
    app.schedule("0 9 * * *", job="unknown")
    with pytest.raises(ConfigError, match="no such job type"):
        app.check_effects()
    app = app_with_schedules()
    app.schedule("0 9 * * *", job="sync")
    with pytest.raises(ConfigError, match="with id="):
        app.check_effects()
    app = app_with_schedules()

    @app.schedule("0 9 * * *")
    async def bare(ctx: Context) -> None: ...

    with pytest.raises(ConfigError, match="decorates no handler"):
        app.check_effects()
    app = app_with_schedules()
    app.schedule("0 9 * * *", job="sync", id="large", input="x" * 800_000)
    with pytest.raises(ConfigError, match="larger than"):
        app.check_effects()


async def test_a_worker_sends_all_schedules_to_each_partition_at_its_start() -> None:
    app = app_with_schedules()
    async with bench(app) as at:
        bodies = [(partition, command.body) for partition, command in at.commands()]
        declared = {p: b for p, b in bodies if isinstance(b, DeclareSchedules)}
    assert len(declared) > 1
    assert set(declared.values()) == {DeclareSchedules("support", app.schedules())}
