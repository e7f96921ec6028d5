"""Random requests as the API's document allows them, and what each answer must be."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from streams.api.live.http import PATHS as STREAMS

_CHECKS = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
_ANSWERED_WITHIN_SECONDS = 30
_FEWEST_CALLS = 10
_LONGEST_LINE = 8_190
"""Bytes of a request's first line; aiohttp answers a longer one with 400 before the API has it."""
_LAST = ("/erase", "/v1/session/end", "/v1/vault/rewrap")
"""What these calls do would spoil most of the others."""

Known = Mapping[str, tuple[str, ...]]


@dataclass
class Requests:
    """Requests to an API; `faults` are answers that the document does not have.

    `known` are values of path parameters by name that lead to things that are there.
    """

    url: str
    token: str
    document: dict[str, Any]
    known: Known
    seed: int
    faults: list[str] = field(default_factory=list)
    made: int = 0
    operations: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    slowest: tuple[float, str] = (0.0, "none")

    def run(self, examples: int, seconds: float) -> None:
        """Make so many requests of each call, of fewer calls, but of some, if the time is over."""
        load_all_checks()
        end = time.monotonic() + seconds
        for operation in self._operations():
            if time.monotonic() > end and self.operations >= _FEWEST_CALLS:
                break
            self.operations += 1
            self._try(operation, examples)

    def told(self) -> str:
        """The faults, and how they are seen again."""
        return "\n".join([*self.faults, f"again with TIDEGATE_API_SEED={self.seed}"])

    def _operations(self) -> Iterator[Any]:
        schema = schemathesis.openapi.from_dict(self.document)
        found = [result.ok() for result in schema.get_all_operations()]
        Random(self.seed).shuffle(found)
        yield from sorted(found, key=lambda each: each.path.endswith(_LAST))

    def _try(self, operation: Any, examples: int) -> None:
        names = [p for p in self.known if f"{{{p}}}" in operation.path]
        chosen = st.fixed_dictionaries({n: st.sampled_from(self.known[n]) for n in names})

        @seed(self.seed)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(_as_declared_or_not(operation), chosen, st.integers(1, 3), st.integers(1, 3))
        def requested(case: Any, names: dict[str, str], named: int, filled: int) -> None:
            if named > 1 or operation.path in STREAMS:
                case.path_parameters = {**(case.path_parameters or {}), **names}
            if filled == 1 and (example := self._example(operation)) is not None:
                case.body, case.media_type = example, "application/json"
            self._ask(case)

        requested()

    def _example(self, operation: Any) -> Any:
        """The example of a body in the document."""
        declared = self.document["paths"][operation.path][operation.method.lower()]
        content = declared.get("requestBody", {}).get("content", {})
        return content.get("application/json", {}).get("example")

    def _ask(self, case: Any) -> None:
        self.made += 1
        began = time.monotonic()
        self._answer(case)
        took = round(time.monotonic() - began, 1)
        self.slowest = max(self.slowest, (took, f"{case.method} {case.formatted_path}"))

    def _answer(self, case: Any) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            response = case.call(
                base_url=self.url, headers=headers, timeout=_ANSWERED_WITHIN_SECONDS
            )
        except Exception as error:
            self.faults.append(f"{case.method} {case.formatted_path}: {error!r}")
            return
        status = response.status_code
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status == 400 and len(response.request.path_url) > _LONGEST_LINE - len("HTTP/1.1"):
            return
        if status == 500:
            self.faults.append(f"500 of {_shown(case)}: {response.text[:300]}")
        try:
            case.validate_response(response, checks=CHECKS.get_by_names(list(_CHECKS)))
        except BaseExceptionGroup as group:
            told = "; ".join(" ".join(str(each).split())[:600] for each in group.exceptions)
            self.faults.append(f"{status} of {_shown(case)}: {told}")


def _as_declared_or_not(operation: Any) -> Any:
    """Requests as the document allows them, and others."""
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    return st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))


def _shown(case: Any) -> str:
    return f"{case.method} {case.formatted_path} {case.query!r} {str(case.body)[:300]}"
