"""The rules of credentials and redaction: references lead somewhere, and rules find something."""

from __future__ import annotations

from collections.abc import Iterator

from streams.redaction.patterns import Patterns
from streams.topology.model import Topology
from streams.topology.problems import Problem, problem

_TOKENS = Patterns(("token",), ())


def secrecy(topology: Topology) -> Iterator[Problem]:
    """Every broken rule of credentials and redaction."""
    for each in topology.credentials.values():
        path = ("credentials", each.name, "reference")
        if _TOKENS.out_of(each.reference) != each.reference:
            # Not shown: a problem is printed and logged.
            yield problem(
                "the reference looks like a secret itself; put that into the provider, and its "
                "place here",
                path,
            )
        elif each.fault is not None:
            yield problem(each.fault, path)
    for name, index, wrong in topology.redaction.faults():
        yield problem(wrong, ("redaction", name, index))
