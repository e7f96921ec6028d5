"""The tests' garbage is collected where it can be left behind, and nowhere else."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from weakref import ref

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


class Client:
    """Something that must end before the broker of its module."""


@pytest.fixture(scope="module")
def broker() -> Iterator[list[ref[Client]]]:
    clients: list[ref[Client]] = []
    yield clients
    assert [client() for client in clients] == [None]


@pytest.fixture
def client(broker: list[ref[Client]]) -> Client:
    made = Client()
    broker.append(ref(made))
    return made


def test_a_client_ends_before_the_broker_of_its_module(client: Client) -> None:
    """The teardown of `broker` looks; this must be the last test of the module."""
    assert client is not None
