"""How pytest-xdist shares out the tests of `make test`."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TOGETHER = frozenset(
    {
        "tests/acceptance/test_demo.py",
        "tests/acceptance/test_dev_pipeline.py",
        "tests/acceptance/test_missing_rights.py",
        "tests/acceptance/test_traces.py",
        "tests/integration/test_container_image.py",
        "tests/integration/test_doctor.py",
        "tests/integration/test_embedded_cluster.py",
    }
)
"""Modules whose fixtures start a broker of their own, a whole pipeline, or an installation, or make
all topics."""


class SingleTests(LoadScopeScheduling):  # type: ignore[misc]
    """A free worker takes the next test, or all tests of a module in `TOGETHER`.

    `--dist loadgroup` is meant for this, but xdist 3.8 recognises no group under pytest 9.2. A new
    worker in a crashed one's place would get one test, and wait for the next for ever, so use
    `--max-worker-restart 0`: then a crash ends the run.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.split("::", maxsplit=1)[0]
        return module if module in TOGETHER else nodeid
