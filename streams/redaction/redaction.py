"""The one place through which all goes that a handler says.

A redacted text, redacted again, stays as it is. So the same value may pass here more than once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streams import user_json
from streams.redaction.json_texts import replaced, texts
from streams.redaction.log_values import cleaned, opened
from streams.redaction.paths import Fields
from streams.redaction.patterns import MOST_HELD, Patterns
from streams.redaction.secrets import KnownSecrets
from streams.redaction.stream import StreamRedaction

_MOST_ROUNDS = 10
_MOST_LOGGED = 262_144
"""So much of a text in a log line is searched: all runs would wait while a large body is."""


class Redaction:
    """What one worker takes out; safe in threads.

    `secrets` are always taken out. `fields` are JSON paths from the root of each value, `patterns`
    regular expressions, `presets` names of `presets.PRESETS`.
    """

    def __init__(
        self,
        fields: Iterable[str] = (),
        patterns: Iterable[str] = (),
        presets: Iterable[str] = (),
        secrets: KnownSecrets | None = None,
    ) -> None:
        self.secrets = KnownSecrets() if secrets is None else secrets
        self._fields = Fields(fields)
        self._patterns = Patterns(presets, patterns)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing that it would take out by now."""
        return not (self._fields or self._patterns or self.secrets.forms)

    def text(self, text: str) -> str:
        """A text without secrets. What is found may uncover another one that stands beside it."""
        for _ in range(_MOST_ROUNDS):
            found = self._patterns.out_of(self.secrets.out_of(text))
            if found == text:
                break
            text = found
        return text

    def json(self, text: str) -> str:
        """A JSON text without secrets; it stays as it is, byte for byte, if it has none."""
        if not (self._fields or self._patterns or self.secrets.are_in(text)):
            return text
        value = user_json.read(text)
        found = self.value(value)
        return text if found == value else user_json.write(found).decode()

    def value(self, value: Any) -> Any:
        """A JSON value without secrets. Names of members are texts, and so is each number."""
        value = self._fields.out_of(value)
        changed = self._changed(list(dict.fromkeys(texts(value))))
        return replaced(value, changed) if changed else value

    def members(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values of a log line without secrets. Their names stay: give the line to `text`, too.

        A path counts from the root of each of them, and from all of them together.

        Raises:
            RecursionError: one of them contains itself.
        """
        if self.is_idle:
            return values
        whole = self._fields.out_of(opened(values)) if self._fields else values
        left = {name: self._fields.out_of(value) for name, value in whole.items()}
        return {name: cleaned(value, self.head) for name, value in left.items()}

    def covers(self, text: str) -> bool:
        """Whether something would be taken out of a text."""
        return self.text(text) != text

    def stream(self) -> StreamRedaction:
        """For one text that comes in pieces."""
        return StreamRedaction(self)

    def unfinished(self, text: str) -> int:
        """The place from which the end of a text may be the beginning of a secret."""
        cut = min(self.secrets.unfinished(text), self._patterns.unfinished(text))
        while (outside := self._patterns.outside(text, self.secrets.outside(text, cut))) < cut:
            cut = outside
        return cut

    def head(self, text: str) -> str:
        """A text of a log line without secrets; of a very long one the beginning."""
        if len(text) <= _MOST_LOGGED:
            return self.text(text)
        # Where it is cut there may be a part of a secret.
        kept = self.text(text[:_MOST_LOGGED])[:-MOST_HELD]
        return f"{kept}[...] of {len(text):,} characters"

    def _changed(self, found: list[str]) -> dict[str, str]:
        """Of these texts, those that hold secrets, each with what becomes of it.

        All are searched at once, because most values hold none.
        """
        suspects = self._patterns.suspects(found)
        if self.secrets.are_in("\0".join(found)):
            suspects = found
        cleaned = {text: self.text(text) for text in suspects}
        return {text: clean for text, clean in cleaned.items() if clean != text}
