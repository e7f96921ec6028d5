"""Jobs that limits hold back: what is done for them stays small, however many there are."""

from __future__ import annotations

from support.dispatching import topology

from streams.dispatcher.limited import Limited
from streams.dispatcher.live_index import Live
from streams.topology.limits import Limit

CUSTOMER = Limit("one_a_customer", "key", by="input.customer", concurrency=1)


def job(customer: int, status: str = "running") -> Live:
    keys = (("one_a_customer", str(customer)),)
    return Live(status, 0, "acme", "draft", "default", "webhook", 1, None, True, None, keys)


def back(limited: Limited) -> list[str]:
    return [each.ready.job_id for each in limited.back(0)]


def test_places_for_which_nobody_waits_delay_nobody() -> None:
    limited = Limited(topology(CUSTOMER))
    for number in range(1_000):
        limited.started(job(number))
    assert limited.waits("late", job(999, "pending"))
    for number in range(1_000):
        limited.ended(job(number))
    assert back(limited) == ["late"]


def test_what_is_remembered_of_jobs_that_came_back_is_forgotten_while_another_waits() -> None:
    limited = Limited(topology(CUSTOMER))
    limited.started(job(0))
    limited.waits("stays", job(0, "pending"))
    for number in range(1, 1_000):
        limited.started(job(1))
        assert limited.waits(f"j{number}", job(1, "pending")._replace(at=number))
        limited.ended(job(1))
        assert back(limited) == [f"j{number}"]
        limited.waits_no_more(f"j{number}")
    assert limited.aside.oldest() == 0
    assert len(limited.aside._oldest) < 50
