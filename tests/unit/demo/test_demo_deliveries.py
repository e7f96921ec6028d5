"""G7 is judged from outside: each owed delivery has a row, and each row says what was received."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.honest_run import HonestRun, seen

from streams.demo.verdict.deliveries import deliveries_end, not_shown, repeats
from streams.demo.verdict.judge import judge
from streams.serde.delivery_records import Delivery


@pytest.fixture
def run() -> HonestRun:
    return HonestRun()


def violations(run: HonestRun) -> list[str]:
    return deliveries_end(run.evidence()).violations


def a_delivered(run: HonestRun, endpoint_id: str = "everything") -> Delivery:
    return next(row for row in run.outgoing.of(endpoint_id) if row.status == "delivered")


def test_it_follows_from_events_and_jobs_what_each_endpoint_has_to_get(run: HonestRun) -> None:
    ids = {
        name: len({r.delivery_id for r in run.outgoing.of(name)})
        for name in (
            "everything",
            "disabled",
            "refuses",
            "callbacks",
            "fails",
            "hangs",
            "restarted",
        )
    }
    assert ids == {
        "everything": 21,  # 10 tickets, the ends of their jobs and that of the delayed job
        "disabled": 10,
        "refuses": 1,
        "callbacks": 1,
        "fails": 10,
        "hangs": 10,
        "restarted": 10,
    }


def test_a_delivery_without_a_row_is_missing(run: HonestRun) -> None:
    lost = a_delivered(run)
    run.outgoing.rows = [s for s in run.outgoing.rows if s.value.delivery_id != lost.delivery_id]
    assert any("0 rows in the queue, not one" in each for each in violations(run))


def test_two_rows_for_one_delivery(run: HonestRun) -> None:
    run.outgoing.change(a_delivered(run), delivery_id="dlv_twice", attempts=0)
    (violation,) = violations(run)
    assert "2 rows in the queue, not one" in violation


def test_a_row_that_nothing_explains(run: HonestRun) -> None:
    run.outgoing.change(a_delivered(run), delivery_id="dlv_x", message_id="evt_x", attempts=0)
    (violation,) = violations(run)
    assert violation == "acme/everything/evt_x: a delivery that nothing explains"


def test_a_delivered_row_whose_message_never_came(run: HonestRun) -> None:
    row = a_delivered(run)
    run.outgoing.hooks = [h for h in run.outgoing.hooks if h.message_id != row.message_id]
    assert any("its receiver never took it" in each for each in violations(run))


@pytest.mark.parametrize("change", [{"status": 503}, {"status": None}])
def test_a_request_that_was_not_answered_2xx_was_not_taken(
    run: HonestRun, change: dict[str, int | None]
) -> None:
    run.outgoing.hooks[0] = replace(run.outgoing.hooks[0], status=change["status"])
    (violation,) = violations(run)
    assert "its receiver never took it" in violation


def test_a_wrong_signature(run: HonestRun) -> None:
    run.outgoing.hooks[0] = replace(run.outgoing.hooks[0], verified=False)
    assert any("came without a signature that holds" in each for each in violations(run))


def test_a_row_that_stays_pending_or_is_parked_where_nothing_was_disabled(run: HonestRun) -> None:
    first, second = a_delivered(run), a_delivered(run, "fails")
    run.outgoing.change(first, status="pending")
    run.outgoing.change(second, status="parked", parked_because="endpoint_disabled")
    assert {each.partition(": ")[2] for each in violations(run)} == {
        "is pending and not delivered",
        "is parked and not delivered",
    }


def test_a_row_parked_without_a_reason(run: HonestRun) -> None:
    run.outgoing.change(run.outgoing.of("disabled")[-1], parked_because=None)
    (violation,) = violations(run)
    assert "is parked without a reason" in violation


def test_an_attempt_that_is_missing_in_the_log(run: HonestRun) -> None:
    run.outgoing.attempts.pop()
    (violation,) = violations(run)
    assert "in their log" in violation


def test_a_repeat_under_the_same_webhook_id_is_counted_and_allowed(run: HonestRun) -> None:
    assert repeats(run.outgoing.hooks) == 0
    taken = next(hook for hook in run.outgoing.hooks if hook.taken)
    run.outgoing.hooks.append(taken)
    assert repeats(run.outgoing.hooks) == 1
    assert violations(run) == []


def test_a_request_under_an_unknown_webhook_id(run: HonestRun) -> None:
    run.outgoing.hooks.append(replace(run.outgoing.hooks[0], message_id="evt_x"))
    (violation,) = violations(run)
    assert "came under a webhook-id that has no row" in violation


def test_a_foreign_text_in_a_message_breaks_g3(run: HonestRun) -> None:
    marker = run.scenario.markers["globex"]
    mine = next(i for i, hook in enumerate(run.outgoing.hooks) if hook.tenant_id == "acme")
    run.outgoing.hooks[mine] = replace(run.outgoing.hooks[mine], text=marker)
    assert judge(run.evidence()).findings["G3"].violations


def test_a_run_must_show_every_kind_of_end(run: HonestRun) -> None:
    run.outgoing.rows = []
    run.outgoing.attempts = [
        seen("deliveries.attempts", replace(s.value, error=None)) for s in run.outgoing.attempts
    ]
    assert len(list(not_shown(run.evidence()))) == 6
