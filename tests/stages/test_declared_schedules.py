"""Schedules in the code of applications: one set for each application, at each of its tenants."""

from __future__ import annotations

from typing import Any

import pytest
from support.scheduling import DAY, HOUR, MINUTE, Clockwork, spec

from streams.runtime.driver import START_MS
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import DeclaredSchedule, DeclareSchedules, TenantRecord


def each(id_: str, tenant: str = "*", **fields: Any) -> DeclaredSchedule:
    return DeclaredSchedule(id_, tenant, spec(**fields))


@pytest.fixture
def works() -> Clockwork:
    works = Clockwork()
    works.tenant("acme")
    works.tenant("beta")
    return works


def names(works: Clockwork) -> list[tuple[str, str]]:
    return sorted(works.rows())


def test_each_tenant_has_what_is_declared_for_it(works: Clockwork) -> None:
    works.declare(each("all"), each("one", "beta"), each("none", "unknown"))
    assert names(works) == [("acme", "all"), ("beta", "all"), ("beta", "one")]
    assert {row.app for row in works.rows().values()} == {"support"}
    works.driver.advance(MINUTE)
    assert [len(works.made(i, t)) for t, i in names(works)] == [1, 1, 1]


def test_a_new_tenant_has_them_too(works: Clockwork) -> None:
    works.declare(each("all"), each("late", "later"))
    works.tenant("later")
    works.driver.advance(0.3)
    assert [name for tenant, name in names(works) if tenant == "later"] == ["all", "late"]


def test_a_set_replaces_the_former_one_as_a_whole(works: Clockwork) -> None:
    works.declare(each("same"), each("gone"), each("other"))
    works.declare(each("mine"), app="shop")
    before = works.row("same")
    works.pause("other")
    works.driver.advance(30)
    works.declare(each("same"), each("other", every_seconds=HOUR), each("new"))
    assert [i for t, i in names(works) if t == "acme"] == ["mine", "new", "other", "same"]
    after = works.row("same")
    assert (after.generation, after.created_at) == (1, before.created_at)
    assert len(works.made("same")) == 1
    other = works.row("other")
    assert (other.generation, other.paused) == (2, True)


def test_an_empty_set_removes_all_of_an_application(works: Clockwork) -> None:
    works.declare(each("all"))
    works.declare(each("mine"), app="shop")
    works.declare()
    assert names(works) == [("acme", "mine"), ("beta", "mine")]


def test_the_same_set_again_writes_nothing(works: Clockwork) -> None:
    works.declare(each("all"))
    before = (
        len(works.driver.output("schedules")),
        len(works.driver.output("dispatcher.parts.changelog")),
    )
    works.driver.restart("dispatcher")
    works.declare(each("all"))
    assert before == (
        len(works.driver.output("schedules")),
        len(works.driver.output("dispatcher.parts.changelog")),
    )


def test_one_of_the_api_stays_and_a_declared_one_is_not_changed_by_it(works: Clockwork) -> None:
    works.schedule("all", every_seconds=HOUR)
    works.declare(each("all"), each("own"))
    row = works.row("all")
    assert (row.app, row.spec.every_ms) == (None, 3_600_000)
    works.schedule("own", every_seconds=HOUR)
    assert works.dead_letters()[-1].reason == "schedule_declared"
    works.delete("own")
    assert ("acme", "own") not in works.rows()


def test_many_tenants_follow_in_parts(works: Clockwork) -> None:
    for number in range(700):
        works.tenant(f"t{number}")
    works.declare(each("all", every_seconds=DAY), each("two", every_seconds=DAY))
    works.driver.restart("dispatcher")
    works.driver.advance(3)
    assert len(works.rows()) == 2 * 702
    works.declare(each("two", every_seconds=DAY))
    works.driver.advance(3)
    assert len(works.rows()) == 702


def test_an_erased_tenant_gets_none_again(works: Clockwork) -> None:
    works.declare(each("all"))
    works.tenant("acme", "erasure")
    works.tenant("acme", disabled=True)
    works.driver.advance(0.5)
    assert names(works) == [("beta", "all")]
    works.declare(each("all"), each("more"))
    assert names(works) == [("beta", "all"), ("beta", "more")]


def test_a_set_with_a_schedule_that_cannot_be_is_refused_whole(works: Clockwork) -> None:
    wrong = each("bad", cron="0 9 * * *")
    object.__setattr__(wrong.spec, "tz", "Europe/Bonn")
    works.declare(each("all"), wrong)
    assert works.rows() == {}
    assert works.refusals() == ["schedule_wrong"]


def declare_late(works: Clockwork, *schedules: DeclaredSchedule, at: int) -> None:
    """Have the dispatcher read a set minutes after the broker took it, since it was down."""
    works.driver._clock.ms += 5 * MINUTE * 1000
    works.command(DeclareSchedules("support", schedules), tenant="", at=at)
    works.driver.advance(0.5)


def test_a_time_that_came_before_a_new_set_was_read_makes_its_job(works: Clockwork) -> None:
    once, daily = each("once", at=START_MS + 60_000), each("daily", cron="8 15 * * *")
    over = each("over", at=START_MS + 5_000)
    declare_late(works, once, daily, over, at=START_MS + 10_000)
    assert works.times("once") == ["06-15 15:07:40"]
    assert works.times("daily") == ["06-15 15:08:00"]
    assert works.times("over") == []


def test_a_time_that_came_before_a_changed_set_was_read_is_one_of_the_new_definition(
    works: Clockwork,
) -> None:
    works.declare(each("daily", cron="8 15 * * *"))
    declare_late(works, each("daily", job="refund", cron="8 15 * * *"), at=START_MS + 10_000)
    (job,) = works.made("daily")
    assert job.type == "refund"
    assert works.row("daily").skipped_at is None


def test_no_tenant_misses_a_time_because_others_are_looked_at_first(works: Clockwork) -> None:
    for number in range(700):
        works.tenant(f"t{number}")
    works.driver.advance(1)
    works.declare(each("all", at=works.driver.now + 200))
    works.driver.advance(5)
    assert len(works.rows()) == 702
    assert [len(works.made("all", tenant)) for tenant, _ in works.rows()] == [1] * 702


def test_a_tenant_has_the_times_since_it_was_made(works: Clockwork) -> None:
    works.declare(each("late", at=START_MS + 60_000), each("over", at=START_MS + 5_000))
    works.driver._clock.ms += 5 * MINUTE * 1000
    key, value = tenant_key("new", "tenant", ""), TenantRecord("new", "tenant", "", False, "{}")
    works.driver.pipe("tenants", key, TENANT.encode(value), timestamp=START_MS + 10_000)
    works.driver.advance(0.5)
    assert [works.times(name, "new") for name in ("late", "over")] == [["06-15 15:07:40"], []]


def test_one_that_was_deleted_comes_back_with_a_change_of_its_own_application_alone(
    works: Clockwork,
) -> None:
    works.declare(each("all"))
    works.delete("all")
    works.declare(each("mine"), app="shop")
    assert names(works) == [("acme", "mine"), ("beta", "all"), ("beta", "mine")]
    works.declare(each("all"), each("more"))
    assert ("acme", "all") in names(works)


def test_what_another_application_gives_up_the_other_one_has_at_once(works: Clockwork) -> None:
    works.declare(each("both"), app="a")
    works.declare(each("both", every_seconds=HOUR), app="b")
    assert works.row("both").app == "b"
    works.declare(app="b")
    row = works.row("both")
    assert (row.app, row.spec.every_ms) == ("a", 60_000)
    assert row.since == row.created_at > START_MS


def test_a_time_that_has_fired_is_not_fired_again_by_an_application_that_took_over(
    works: Clockwork,
) -> None:
    works.declare(each("all", every_seconds=HOUR), app="old")
    works.declare(each("all"), app="old")
    assert works.row("all").generation == 2
    asked = works.driver.now + 1_000
    works.driver.advance(MINUTE)
    assert works.times("all") == ["06-15 15:07:00"]
    for app, schedules in (("old", ()), ("young", (each("all"),))):
        works.command(DeclareSchedules(app, schedules), tenant="", at=asked)
    works.driver.advance(MINUTE)
    assert works.row("all").app == "young"
    assert works.times("all") == ["06-15 15:07:00", "06-15 15:08:00"]


def test_a_second_set_loses_no_time_of_what_the_first_one_had_declared_already(
    works: Clockwork,
) -> None:
    once, daily = each("once", at=START_MS + 60_000), each("daily", cron="8 15 * * *")
    first, later = DeclareSchedules("support", (once, daily)), each("daily", cron="9 15 * * *")
    works.driver._clock.ms += 5 * MINUTE * 1000
    works.command(first, tenant="", at=START_MS + 10_000)
    declare_late(works, once, later, each("more"), at=START_MS + 120_000)
    assert works.times("once") == ["06-15 15:07:40"]
    assert works.times("daily") == ["06-15 15:09:00"]


def test_a_time_that_has_fired_is_not_fired_again_by_one_that_was_removed_before_and_came_back(
    works: Clockwork,
) -> None:
    works.declare(each("all", every_seconds=HOUR))
    works.declare(each("all"))
    asked = works.driver.now + 1_000
    works.driver.advance(MINUTE)
    for place, schedules in enumerate(((), (each("all"),))):
        works.command(DeclareSchedules("support", schedules), tenant="", at=asked + place)
        works.driver.advance(0.3)
    assert works.times("all") == ["06-15 15:07:00"]
    works.driver.advance(MINUTE)
    assert works.times("all") == ["06-15 15:07:00", "06-15 15:08:00"]


LIMITED = "default-hostile/b1"


def declared_by_a_limited_worker(works: Clockwork, *schedules: DeclaredSchedule) -> None:
    """By a worker whose token allows some job types alone."""
    link = works.driver.link()
    if LIMITED not in link.dialed:
        link.connect(LIMITED, "default", job_types=("refund.*",))
    works.order(LIMITED, DeclareSchedules("support", schedules), tenant="")
    works.driver.advance(0.3)


def test_a_limited_token_declares_schedules_of_its_job_types_alone(works: Clockwork) -> None:
    declared_by_a_limited_worker(works, each("mine", job="refund.card"), each("other", job="mail"))
    assert names(works) == []
    declared_by_a_limited_worker(works, each("mine", job="refund.card"))
    assert names(works) == [("acme", "mine"), ("beta", "mine")]


def test_a_limited_token_removes_no_schedules_of_other_job_types(works: Clockwork) -> None:
    works.declare(each("theirs", job="mail"))
    declared_by_a_limited_worker(works)
    declared_by_a_limited_worker(works, each("mine", job="refund.card"))
    assert names(works) == [("acme", "theirs"), ("beta", "theirs")]
