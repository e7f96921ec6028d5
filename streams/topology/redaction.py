"""What workers take out of all that handlers say, beside the values of credentials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streams.redaction.paths import parsed
from streams.redaction.patterns import fault
from streams.redaction.presets import PRESETS
from streams.topology.declared import Declared, Text


@dataclass(frozen=True, slots=True)
class RedactionRules(Declared):
    """`fields` are JSON paths, `patterns` regular expressions, `presets` names of shipped ones."""

    fields: tuple[Text, ...] = ()
    patterns: tuple[Text, ...] = ()
    presets: tuple[Text, ...] = ()

    def faults(self) -> Iterator[tuple[str, int, str]]:
        """What is wrong: the list, the index in it, and what to write instead."""
        for index, path in enumerate(self.fields):
            try:
                parsed(path)
            except ValueError as error:
                yield "fields", index, f"{path!r} is not a path that redaction knows; give {error}"
        for index, pattern in enumerate(self.patterns):
            if (wrong := fault(pattern)) is not None:
                yield "patterns", index, wrong
        for index, preset in enumerate(self.presets):
            if preset not in PRESETS:
                known = ", ".join(PRESETS)
                yield "presets", index, f"there is no preset {preset!r}; use one of {known}"
