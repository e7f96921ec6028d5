"""Different calls have different ids, and the usual ones are read as they are written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.serde.step_ids import (
    branch_of,
    branch_path,
    inside_path,
    mark_id,
    proposal_id,
    shown_id,
    step_id,
)

TEXT = st.text(alphabet="ab#/[]()!%2F\\ ", min_size=1, max_size=4)
CALL = st.tuples(
    st.lists(TEXT, max_size=2),
    TEXT,
    st.one_of(st.integers(1, 12), TEXT),
    st.sampled_from(["call", "mark", "inside"]),
)


def id_of(branches: list[str], name: str, which: int | str, what: str) -> str:
    path = ""
    for branch in branches:
        path = branch_path(path, branch)
    if what == "mark":
        return mark_id(path, name)
    made = step_id(path, name, which) if isinstance(which, int) else step_id(path, name, 1, which)
    return step_id(inside_path(made), "x") if what == "inside" else made


def test_the_usual_ids_are_plain() -> None:
    assert step_id("", "draft") == "draft"
    assert step_id("", "draft", 2) == "draft#2"
    assert step_id("", "draft", key="order 7") == "draft[order 7]"
    assert step_id(branch_path(branch_path("", "a"), "b"), "draft") == "a/b/draft"
    assert step_id(inside_path("draft#2"), "ask") == "draft#2()/ask"
    assert step_id("", "a/b%") == "a%2Fb%25"


def test_people_read_the_name_of_the_effect_that_waits_for_them() -> None:
    ids = ["draft#2", proposal_id("pay:refund/order 7%"), mark_id("", "new greeting")]
    assert [*map(shown_id, ids)] == ["draft#2", "pay:refund/order 7%", "!new greeting"]


@given(CALL, CALL)
def test_two_calls_have_one_id_only_if_they_are_the_same(
    one: tuple[list[str], str, int | str, str], other: tuple[list[str], str, int | str, str]
) -> None:
    same = one == other or (one[3] == other[3] == "mark" and one[:2] == other[:2])
    assert (id_of(*one) == id_of(*other)) == same


@given(CALL)
def test_an_id_tells_its_branch(call: tuple[list[str], str, int | str, str]) -> None:
    branches, name, which, _ = call
    path = ""
    for branch in branches:
        path = branch_path(path, branch)
    assert branch_of(id_of(branches, name, which, "call")) == path
    assert branch_of(mark_id(path, name)) == path
