"""Chains of audit entries: whatever is missing, doubled, moved or altered shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.audit import chain, entries
from streams.audit.chain import Head, Verifier, chain_of, head_of, linked, verify
from streams.serde.codec import AUDIT_ENTRY
from streams.serde.records import DONE, REFUSED, AuditEntry, Call

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MAYBE = st.none() | TEXT
CALLS = st.builds(Call, TEXT, TEXT, TEXT)
UNLINKED = st.builds(
    entries.of_call,
    CALLS,
    TEXT,
    TEXT,
    st.sampled_from([DONE, REFUSED]),
    st.integers(0, 2**62),
    tenant_id=TEXT,
    reason=MAYBE,
    detail=MAYBE,
    note=MAYBE,
    command_id=MAYBE,
    before=MAYBE,
    after=MAYBE,
)
WRITERS = st.sampled_from(["dispatcher", "delivery", "operator/pod-0"])
WRITTEN = st.lists(st.tuples(WRITERS, UNLINKED), min_size=1, max_size=12)


def written(given_: list[tuple[str, AuditEntry]]) -> list[AuditEntry]:
    """Entries of several writers of one partition, as its topic has them."""
    heads: dict[str, Head] = {}
    found = []
    for writer, entry in given_:
        name = chain_of(writer, 3)
        found.append(linked(entry, heads.get(name, Head(name))))
        heads[name] = head_of(found[-1])
    return found


@given(WRITTEN)
def test_chains_are_whole_as_they_were_written(given_: list[tuple[str, AuditEntry]]) -> None:
    read = [AUDIT_ENTRY.decode(AUDIT_ENTRY.encode(each)) for each in written(given_)]
    assert list(verify(read)) == []
    assert len({each.id for each in read}) == len(read)


@given(WRITTEN, st.data())
def test_the_oldest_may_be_gone(given_: list[tuple[str, AuditEntry]], data: st.DataObject) -> None:
    log = written(given_)
    assert list(verify(log[data.draw(st.integers(0, len(log))) :])) == []


@given(WRITTEN, st.data())
def test_an_entry_that_is_missing_shows_in_the_next_of_its_chain(
    given_: list[tuple[str, AuditEntry]], data: st.DataObject
) -> None:
    log = written(given_)
    lost = log.pop(data.draw(st.integers(0, len(log) - 1)))
    kept = [each for each in log if each.chain == lost.chain]
    is_between = any(e.seq < lost.seq for e in kept) and any(e.seq > lost.seq for e in kept)
    assert [found.entry.seq for found in verify(log)] == [lost.seq + 1] * is_between


@given(WRITTEN, st.data())
def test_an_entry_that_comes_twice_shows(
    given_: list[tuple[str, AuditEntry]], data: st.DataObject
) -> None:
    log = written(given_)
    place = data.draw(st.integers(0, len(log) - 1))
    log.insert(data.draw(st.integers(place + 1, len(log))), log[place])
    assert list(verify(log))


@given(WRITTEN, st.data())
def test_two_entries_of_a_chain_in_each_others_place_show(
    given_: list[tuple[str, AuditEntry]], data: st.DataObject
) -> None:
    log = written([("dispatcher", entry) for _, entry in given_] * 2)
    places = st.integers(0, len(log) - 1)
    one, other = data.draw(st.lists(places, min_size=2, max_size=2, unique=True))
    log[one], log[other] = log[other], log[one]
    assert list(verify(log))


@given(WRITTEN, st.data())
def test_an_entry_that_was_altered_shows(
    given_: list[tuple[str, AuditEntry]], data: st.DataObject
) -> None:
    log = written(given_)
    place = data.draw(st.integers(0, len(log) - 1))
    field, value = data.draw(
        st.sampled_from(["principal", "role", "tenant_id", "verb", "target", "note", "after"])
        .flatmap(lambda name: st.tuples(st.just(name), TEXT))
        .filter(lambda drawn: getattr(log[place], drawn[0]) != drawn[1])
    )
    altered: dict[str, Any] = {field: value}
    log[place] = replace(log[place], **altered)
    assert next(iter(verify(log))).entry == log[place]


@given(WRITTEN, TEXT)
def test_an_entry_that_was_forged_with_a_fitting_hash_shows_in_the_next(
    given_: list[tuple[str, AuditEntry]], note: str
) -> None:
    log = written([("dispatcher", entry) for _, entry in given_] * 2)
    forged = replace(log[0], note=f"another {note}")
    log[0] = replace(forged, hash=chain.digest(forged))
    assert next(iter(verify(log))).entry == log[1]


@given(WRITTEN)
def test_a_head_comes_back_from_the_store(given_: list[tuple[str, AuditEntry]]) -> None:
    verifier = Verifier()
    for entry in written(given_):
        verifier.take(entry)
    for name, head in verifier.heads.items():
        assert Head.decode(name, head.encode()) == head
    assert Head.decode("dispatcher:3", None) == Head("dispatcher:3")


@pytest.mark.parametrize("missing", [1, 7])
def test_a_break_says_how_many_are_missing(missing: int) -> None:
    call = Call("operator", "admin", "req_1")
    entry = entries.of_call(call, "job.cancel", "job_a", DONE, 1)
    log = written([("dispatcher", entry)] * (missing + 2))
    [found] = verify([log[0], log[-1]])
    assert found.entry.id == f"dispatcher:3:{missing + 2}"
    assert found.why == f"{missing} before it, after number 1, are missing"
