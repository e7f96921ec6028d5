"""Places that are kept for a job which needs several at once."""

from __future__ import annotations

from streams.limits.buckets import Bucket
from streams.limits.reservation import AFTER_MS, TAKEN_MS, Reservation

LEFT, RIGHT = Bucket("left", "acme", "1"), Bucket("right", "acme", "1")
BOTH = (LEFT, RIGHT)
LONG = 100 * AFTER_MS


def waiting(job_id: str = "both", ready_at: int = 0) -> Reservation:
    """A job has found one bucket full, and then the other one."""
    reservation = Reservation()
    reservation.set_aside(job_id, ready_at, LEFT, BOTH)
    reservation.set_aside(job_id, ready_at, RIGHT, BOTH)
    return reservation


def kept(reservation: Reservation, now: int) -> bool:
    reservation.pass_time(now)
    return reservation.kept(LEFT, None) == 1


def test_places_are_kept_for_a_job_once_it_has_waited() -> None:
    reservation = waiting()
    assert not kept(reservation, AFTER_MS - 1)
    assert kept(reservation, AFTER_MS)
    assert reservation.kept(LEFT, "both") == 0


def test_a_job_that_always_found_the_same_bucket_full_has_no_place_kept() -> None:
    reservation = Reservation()
    for _ in range(3):
        reservation.set_aside("both", 0, LEFT, BOTH)
    assert not kept(reservation, AFTER_MS)


def test_places_lie_idle_for_two_thirds_of_the_time_at_most_if_another_bucket_stays_full() -> None:
    reservation = waiting()
    idle = sum(kept(reservation, now) for now in range(0, LONG, 100)) * 100
    assert LONG / 5 <= idle <= LONG * 2 / 3


def test_places_that_are_given_up_are_told_so_that_others_take_them() -> None:
    reservation = waiting()
    assert not reservation.pass_time(AFTER_MS)
    assert not reservation.pass_time(2 * AFTER_MS - 1)
    assert reservation.pass_time(2 * AFTER_MS) == {LEFT, RIGHT}


def test_another_job_has_its_turn_while_the_first_one_waits_again() -> None:
    reservation = waiting("first")
    reservation.set_aside("second", 1, LEFT, BOTH)
    reservation.set_aside("second", 1, RIGHT, BOTH)
    reservation.pass_time(AFTER_MS)
    assert reservation.job_id == "first"
    reservation.pass_time(2 * AFTER_MS)
    assert reservation.job_id == "second"


def test_free_places_that_the_job_does_not_take_are_given_up() -> None:
    reservation = waiting()
    assert kept(reservation, AFTER_MS)
    reservation.is_free(AFTER_MS)
    assert kept(reservation, AFTER_MS + TAKEN_MS - 1)
    assert not kept(reservation, AFTER_MS + TAKEN_MS)


def test_a_job_that_waits_no_more_has_no_place_kept() -> None:
    reservation = waiting()
    assert kept(reservation, AFTER_MS)
    assert reservation.waits_no_more("both") == {LEFT, RIGHT}
    assert not kept(reservation, LONG)


def test_what_is_remembered_of_jobs_that_wait_no_more_is_forgotten() -> None:
    reservation = Reservation()
    for number in range(1_000):
        reservation.set_aside(f"j{number}", number, LEFT, BOTH)
        reservation.set_aside(f"j{number}", number, RIGHT, BOTH)
        reservation.waits_no_more(f"j{number}")
    assert len(reservation._order) < 50
