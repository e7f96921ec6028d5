"""The tests' garbage is collected where it can be left behind, and nowhere else."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from threading import current_thread
from types import SimpleNamespace
from weakref import ref

import pytest
from hypothesis import given, settings
from hypothesis.strategies import none
from support.collection import collect


def test_hypothesis_does_not_collect_between_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    collections: list[None] = []
    monkeypatch.setattr(gc, "collect", lambda: collections.append(None))

    @settings(max_examples=1, database=None, derandomize=True)
    @given(none())
    def example(_: None) -> None:
        """As Hypothesis runs any test in CI."""

    example()
    assert not collections


def test_what_a_module_was_given_ends_where_it_can_be_left_behind(
    pytestconfig: pytest.Config, request: pytest.FixtureRequest
) -> None:
    ended: list[str] = []

    class Given:
        def __del__(self) -> None:
            ended.append(current_thread().name)

    definition = SimpleNamespace(scope="module", cached_result=Given())
    pytestconfig.hook.pytest_fixture_post_finalizer(fixturedef=definition, request=request)
    definition.cached_result = None  # as pytest does after its hook
    assert ended == []
    collect()
    assert ended == ["garbage"]


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
