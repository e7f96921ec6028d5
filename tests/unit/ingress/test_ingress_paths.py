"""Compiled paths mean what JMESPath's own interpreter says they mean."""

from __future__ import annotations

from typing import Any

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jmespath.exceptions import JMESPathError

from ingress.formats.paths import compile_path

NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = NAMES | st.sampled_from(["'x'", "`null`", "`0`"])
SCALARS = st.none() | st.booleans() | st.sampled_from([0, 1, -1, 0.0, "", "x"])
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
PATHS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, NAMES).map(".".join),
        st.tuples(inner, inner).map(" || ".join),
        st.tuples(inner, inner).map(" && ".join),
        st.tuples(inner, inner).map(lambda pair: f"[{pair[0]}, {pair[1]}]"),
    ),
    max_leaves=4,
)


@given(PATHS, DOCUMENTS)
def test_a_path_finds_what_the_interpreter_finds(path: str, document: Any) -> None:
    expected = jmespath.search(path, document)
    found = compile_path(path)(document)
    assert found == expected
    assert type(found) is type(expected)


def test_an_expression_beyond_plain_paths_is_interpreted() -> None:
    path = compile_path("join('-', items[?ok].name)")
    assert path({"items": [{"ok": True, "name": "a"}, {"name": "b"}, {"ok": 1, "name": "c"}]}) == (
        "a-c"
    )


def test_a_function_that_does_not_take_the_value_finds_nothing() -> None:
    assert compile_path("join('-', a)")({"a": 3}) is None


def test_what_is_no_expression_is_refused_when_compiled() -> None:
    with pytest.raises(JMESPathError):
        compile_path("a..b")
