"""The checker of `benchmarks/peers` finds each fault that a peer's handlers can leave behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from peers.contract import Place
from peers.every import EVERY
from peers.kills import Sent, cut_off
from peers.running import Running
from peers.verdict import Journal, Verdict
from peers.webhooks import made
from peers.works import Stage

SENT = ("a", "b")
CLEAN = ("start a", "effect a", "end a", "start b", "effect b", "end b")


def judged(
    folder: Path,
    lines: Sequence[str],
    answered: Sequence[str] = SENT,
    sent: Sequence[str] = SENT,
    left: Sequence[str] = (),
    calling: Sequence[str] = (),
) -> Verdict:
    """What the checker says of a journal with these lines, a second apart."""
    journal = Journal(folder / "journal")
    text = "".join(f"{line} {moment}.5\n" for moment, line in enumerate(lines))
    journal.path.write_text(text)
    return journal.verdict(answered, sent, left, calling)


def test_a_run_without_faults_is_clean(tmp_path: Path) -> None:
    verdict = judged(tmp_path, CLEAN)
    assert verdict == Verdict()
    assert verdict.wrong == 0


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (CLEAN[:-1], Verdict(lost={"b"})),
        (CLEAN[:3], Verdict(lost={"b"})),
        ((*CLEAN, "effect a"), Verdict(doubled={"a"})),
        ((*CLEAN, "effect a", "effect a"), Verdict(doubled={"a"})),
        (("start a", *CLEAN), Verdict(repeated={"a"})),
        ((*CLEAN, "start c", "end c"), Verdict(unknown={"c"})),
    ],
    ids=["no end", "no start", "two effects", "three effects", "two starts", "never sent"],
)
def test_each_fault_is_counted_as_what_it_is(
    tmp_path: Path, lines: Sequence[str], found: Verdict
) -> None:
    assert judged(tmp_path, lines) == found
    assert found.wrong == 1


def test_a_handler_that_ends_without_its_call_is_lost(tmp_path: Path) -> None:
    lines = [line for line in CLEAN if line != "effect a"]
    assert judged(tmp_path, lines, calling=SENT) == Verdict(lost={"a"})
    assert judged(tmp_path, CLEAN, calling=SENT) == Verdict()


def test_an_event_that_was_not_answered_may_be_missing_or_there(tmp_path: Path) -> None:
    assert judged(tmp_path, CLEAN[:3], answered=["a"]).wrong == 0
    assert judged(tmp_path, CLEAN, answered=["a"]).wrong == 0


def test_a_handler_that_is_replayed_after_a_wait_begins_again(tmp_path: Path) -> None:
    lines = ("start a", "start a", "woke a", "end a", "start b", "woke b", "end b")
    assert judged(tmp_path, lines).wrong == 0


def test_a_child_belongs_to_the_event_that_it_is_named_after(tmp_path: Path) -> None:
    children = [f"{kind} a/{number}" for number in range(2) for kind in ("start", "end")]
    assert judged(tmp_path, [*CLEAN, *children]).wrong == 0
    assert judged(tmp_path, [*CLEAN, *children, "start a/1"]).repeated == {"a/1"}
    assert judged(tmp_path, [*CLEAN, "start c/0", "start c/1"]).unknown == {"c"}


@pytest.mark.parametrize(
    ("left", "found"),
    [
        (["b"], Verdict(stuck={"b"})),
        (["a"], Verdict(lost={"b"}, stuck={"a"})),
        (["c"], Verdict(lost={"b"}, stuck={"c"})),
    ],
    ids=["it knows the one without an end", "another that has ended", "one that nobody sent"],
)
def test_only_a_job_that_the_peer_calls_unfinished_is_stuck_and_not_lost(
    tmp_path: Path, left: Sequence[str], found: Verdict
) -> None:
    assert judged(tmp_path, CLEAN[:-1], left=left) == found


def test_a_peer_names_jobs_its_own_way(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    webhooks = made("effect.made", 2)
    for peer in EVERY.values():
        stage = Stage(peer, Running(Place(tmp_path, 0, {}, {})), journal)
        left = [peer.named(webhooks[0])]
        found = stage.judged({each.event_id for each in webhooks}, webhooks, left)
        assert (len(found.lost), len(found.stuck)) == (1, 1), peer.name


def test_the_first_kill_after_a_handler_began_cut_it_off() -> None:
    sent = Sent(
        tried={"a": 1.0, "b": 2.0, "c": 6.0, "d": 9.0},
        killed=[("worker", 5.0), ("store", 7.0), ("worker", 8.0)],
    )
    starts = {"a": 1.5, "b": 5.5, "d": 9.5}
    found = cut_off(sent, starts, ["a", "b", "c", "d", "of another run"])
    assert found == {"worker": 1, "store": 2}
