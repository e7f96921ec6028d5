"""The tests' garbage is collected where it can be left behind, and nowhere else."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given, settings
from hypothesis.strategies import none


def test_hypothesis_does_not_collect_between_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    collections: list[None] = []
    monkeypatch.setattr(gc, "collect", lambda: collections.append(None))

    @settings(max_examples=1, database=None, derandomize=True)
    @given(none())
    def example(_: None) -> None:
        """As Hypothesis runs any test in CI."""

    example()
    assert not collections
