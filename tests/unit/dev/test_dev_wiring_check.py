"""`tidegate dev` warns of what is declared and cannot work together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import streams
from streams.dev.wiring_check import remarks, shadows, unstaffed
from streams.errors import ConfigError
from streams.topology.limits import Limit
from streams.topology.load import load
from streams.topology.model import JobType, Route

PLAIN = replace(load(), routes=(Route("*", "ticket.*", "answer", "webhook"),))
SLOW = replace(
    PLAIN, pools=("default", "slow"), job_types={"report": JobType("report", pool="slow")}
)


def test_what_fits_together_has_no_remark() -> None:
    assert remarks(PLAIN, {"answer"}, {"demo"}) == []
    assert unstaffed(PLAIN, {"answer"}, {"default"}) == []


def test_a_route_without_a_handler_and_a_handler_without_a_route() -> None:
    warning, note = remarks(PLAIN, {"report"}, set())
    assert "jobs of type 'answer', and the application has no handler" in warning
    assert "@app.job('answer')" in warning
    assert note == (
        "note: no route leads to job type 'report'; submit a job with tidegate jobs submit TYPE "
        "--tenant TENANT"
    )


def test_a_declared_type_without_a_handler() -> None:
    (note,) = remarks(SLOW, {"answer"}, set())
    assert "no handler for job type 'report' of the topology" in note
    assert remarks(replace(SLOW, routes=()), {"report"}, set()) == remarks(
        replace(PLAIN, routes=()), {"report"}, set()
    )


def test_a_pool_without_a_worker() -> None:
    (warning,) = unstaffed(SLOW, {"answer", "report"}, {"default"})
    assert warning == ("pool 'slow' has no worker, so job type 'report' waits: add --pool slow=1")
    assert unstaffed(SLOW, {"answer", "report"}, {"default", "slow"}) == []


def test_a_worker_of_a_pool_that_is_not_declared_is_refused() -> None:
    with pytest.raises(ConfigError, match="'fast' is not in the topology; its pools are: default"):
        unstaffed(PLAIN, {"answer"}, {"default", "fast"})


def test_a_limit_that_mistakes_a_type_for_a_tenant_or_the_reverse() -> None:
    """The stages tell of a type that the topology names: here of `answer`."""
    limits = (
        Limit("a", "tenant", "report", concurrency=1),
        Limit("b", "job_type", "demo", concurrency=1),
        Limit("c", "tenant", "answer", concurrency=1),
    )
    told = remarks(replace(PLAIN, limits=limits), {"answer", "report"}, {"demo"})
    no_route, first, second = told
    assert "no route leads to job type 'report'" in no_route
    assert "limit 'a'" in first
    assert "scope: job_type" in first
    assert "limit 'b'" in second
    assert "scope: tenant" in second


def test_a_module_that_has_the_name_of_our_package_is_told(tmp_path: Path) -> None:
    assert list(shadows(tmp_path)) == []
    assert list(shadows(Path(streams.__file__).parents[1])) == []
    (tmp_path / "streams.py").touch()
    (tmp_path / "ingress").mkdir()
    (tmp_path / "ingress/__init__.py").touch()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/streams.py").touch()
    told = list(shadows(tmp_path))
    assert [text.split(" has the name")[0] for text in told] == [
        "streams.py",
        "tests/streams.py",
        "ingress/__init__.py",
    ]
    assert "rename it" in told[0]
