"""Permits: how an owner shares them out, and how a holder asks for them and gives them back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.limits.buckets import Bucket
from streams.limits.permits import UNBOUNDED, Holding, Permits, Window
from streams.limits.sharing import TURN_MS, Share, claimed, fair, is_contended, shared_out, turns

T = TypeVar("T")
COUNTS = st.integers(0, 12)


def share(outstanding: int = 0, want: int = 0, **more: int) -> Share:
    return Share(1, 1, outstanding, 0, want, **more)


@given(st.lists(COUNTS, max_size=6), st.integers(-3, 30))
def test_nobody_gets_more_than_it_wants_and_nothing_is_left_that_is_wanted(
    wants: list[int], cap: int
) -> None:
    found = fair(wants, cap)
    assert all(0 <= got <= want for got, want in zip(found, wants, strict=True))
    assert sum(found) == min(max(0, cap), sum(wants))


@given(st.lists(COUNTS, max_size=6), st.integers(0, 30))
def test_whoever_gets_less_than_it_wants_gets_as_much_as_any_other_or_one_less(
    wants: list[int], cap: int
) -> None:
    found = fair(wants, cap)
    for got, want in zip(found, wants, strict=True):
        assert got == want or got >= max(found) - 1


SHARES = st.dictionaries(
    st.integers(0, 4),
    st.builds(share, COUNTS, COUNTS, target=st.sampled_from((0, 3, UNBOUNDED))),
    max_size=4,
)


@settings(deadline=None)
@given(SHARES, st.integers(0, 20))
def test_no_grant_goes_beyond_the_cap_and_nobody_loses_a_permit(
    shares: dict[int, Share], cap: int
) -> None:
    before = sum(each.outstanding for each in shares.values())
    changed = shared_out(shares, cap, 5_000)
    after = {**shares, **changed}
    assert sum(each.outstanding for each in after.values()) <= max(cap, before)
    for holder, each in after.items():
        assert each.granted >= shares[holder].granted
        assert each.returned == shares[holder].returned
        assert each.outstanding <= max(each.want, shares[holder].outstanding)


@settings(deadline=None)
@given(SHARES, st.integers(0, 20))
def test_sharing_out_again_changes_nothing(shares: dict[int, Share], cap: int) -> None:
    after = {**shares, **shared_out(shares, cap, 5_000)}
    assert not shared_out(after, cap, 5_000)


@settings(deadline=None)
@given(SHARES, st.integers(0, 20))
def test_what_is_recalled_lets_everybody_have_a_fair_share_in_the_end(
    shares: dict[int, Share], cap: int
) -> None:
    for turn in range(10):
        shares |= shared_out(shares, cap, 5_000 + turn)
        for holder, each in shares.items():
            back = max(0, each.outstanding - min(each.target, max(each.want, 0)))
            shares[holder] = replace(each, returned=each.returned + back)
    shares |= shared_out(shares, cap, 5_010)
    got = {holder: each.outstanding for holder, each in shares.items()}
    assert sum(got.values()) == min(cap, sum(each.want for each in shares.values()))
    for holder, each in shares.items():
        assert got[holder] == each.want or got[holder] >= max(got.values()) - 1


def test_a_place_that_does_not_go_round_changes_hands_at_each_turn() -> None:
    shares = {0: share(1, 5, since=1_000), 1: share(0, 5)}
    assert not shared_out(shares, 1, 1_000 + TURN_MS - 1), "the holder keeps its turn"
    recalled = shared_out(shares, 1, 1_000 + TURN_MS)
    assert recalled == {0: replace(shares[0], target=0)}
    returned = {0: replace(recalled[0], returned=1), 1: shares[1]}
    given_ = shared_out(returned, 1, 3_000)
    assert given_[1].outstanding == 1
    assert is_contended(returned | given_)


def test_a_recall_is_taken_back_once_nobody_lacks_anything() -> None:
    shares = {0: share(4, 4, target=2), 1: share(0, 0)}
    assert shared_out(shares, 4, 1)[0].target == UNBOUNDED


def test_an_old_claim_changes_nothing_and_a_new_holding_replaces_the_old_one() -> None:
    known = Share(7, 3, 5, 2, 5, target=4, since=9)
    assert claimed(known, Share(7, 3, 5, 4, 0)) is None, "read twice"
    assert claimed(known, Share(6, 9, 9, 0, 9)) is None, "of an earlier holding"
    newer = claimed(known, Share(7, 4, 4, 3, 1))
    assert newer == replace(known, number=4, returned=3, want=1), "grants under way count"
    old = Share(7, 1, 2, 0, 2)
    assert claimed(old, Share(7, 5, 6, 6, 0)) == Share(7, 5, 6, 6, 0), "its share began anew"
    whole = Share(8, 1, 0, 0, 2)
    assert claimed(known, whole) == whole


CLAIMS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=30
)


@settings(deadline=None)
@given(CLAIMS, st.integers(1, 6))
def test_a_holder_never_holds_more_than_its_owner_knows_of(
    script: list[tuple[int, int, int, bool]], cap: int
) -> None:
    """Claims and grants arrive late and twice; running jobs never exceed what is held."""
    holding, known = Holding(1), None
    claims: list[Holding] = []
    grants: list[Share] = []
    used = 0
    for starts, ends, _late, twice in script:
        used -= min(used, ends)
        found = holding.at_once(used, min(cap, used + starts))
        found = found or holding.after_a_while(used, min(cap, used + starts))
        if found is not None:
            holding = found
            claims.append(holding)
        for claim in _some(claims, _late, twice):
            told = Share(1, claim.number, claim.granted, claim.returned, claim.want)
            known = claimed(known, told) or known
            assert known is not None
            known = {0: known, **shared_out({0: known}, cap, 1)}[0]
            grants.append(known)
        for grant in _some(grants, _late, twice):
            holding = holding.told(grant.granted, grant.target)
        used += min(starts, max(0, min(holding.held, holding.target) - used))
        assert used <= holding.held
        assert holding.held <= (known.outstanding if known is not None else 0) <= cap


def _some(of: list[T], late: int, twice: bool) -> Iterator[T]:
    while len(of) > late:
        found = of.pop(0)
        yield found
        if twice:
            yield found


def test_permits_that_are_of_no_use_go_back_after_a_while_and_recalled_ones_at_once() -> None:
    holding = Holding(1, number=1, granted=5, want=5)
    assert holding.at_once(used=2, wanted=2) is None
    idle = holding.after_a_while(used=2, wanted=3)
    assert idle is not None
    assert (idle.held, idle.want, idle.number) == (3, 3, 2)
    recalled = holding.told(5, target=1).at_once(used=2, wanted=5, kept=1)
    assert recalled is not None
    assert recalled.held == 3, "one runs, one is kept for a job, and those are not taken"


def test_recalled_permits_start_nothing_but_one_job_with_a_reservation() -> None:
    permits, bucket = Permits(), Bucket("calls", "", "")
    assert permits.room(bucket, 0, is_reserved=True) == 0
    permits.set(bucket, Holding(1, number=1, granted=5, want=5, target=1))
    assert permits.room(bucket, 0, is_reserved=False) == 1
    assert permits.room(bucket, 2, is_reserved=False) == 0
    assert permits.room(bucket, 2, is_reserved=True) == 1
    assert permits.room(bucket, 5, is_reserved=True) == 0


def test_the_most_that_was_of_use_lately_counts_for_the_whole_time() -> None:
    window = Window(0.0)
    window.saw(4)
    assert window.most(0.05, 1) is None
    assert window.most(0.1, 1) == 4
    assert window.most(0.2, 1) == 4
    assert window.most(0.31, 1) == 1


def test_no_two_buckets_have_the_same_turns_at_all_times() -> None:
    times = range(1_750_000_000_000, 1_750_000_060_000, 1_000)
    names = [b"limit %d" % number for number in range(60)]
    found = {tuple(map(turns(name, are_several=True), times)) for name in names}
    assert len(found) == len(names)
    assert {length for each in found for length in each} == set(range(1_000, 9_000, 1_000))
