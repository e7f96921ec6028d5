"""Finds what looks like a secret in text, by presets and by patterns of the operator's own."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from streams.redaction.presets import PRESETS
from streams.redaction.secrets import MARK

GROUP = "secret"
"""The group of a pattern that is the secret, if it has one; otherwise all that it matches is."""

MOST_HELD = 65_536
"""The end of a text that may be unfinished is searched for so many characters."""

_LINE = re.compile(r"(?<![^\n])[^\n]*+\Z")
"""What a pattern of the operator's own may leave unfinished: nobody knows more of it."""

_ESCAPES = re.compile(r"(?<!\\)\\++(?:[nrt]|u(?P<code>[0-9A-Fa-f]{4}))")
"""An end of a line, a tab or a sign by its number, as JSON and Python write it inside of another
text."""
_BEGUN_ESCAPE = re.compile(r"(?<!\\)\\++(?:u[0-9A-Fa-f]{0,3})?\Z")

_LETTER = "ü"
_BORDER = "\0"
_BATCH_CHARS = 65_536

Accepts = Callable[[str], bool]


def fault(pattern: str) -> str | None:
    """What is wrong with a pattern; None for one that can be used."""
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"the pattern is no regular expression of Python's: {error}; correct it"
    if compiled.search("") or compiled.search(MARK):
        return f"the pattern also matches an empty text, or {MARK}; make it narrower"
    return None


class Patterns:
    """The patterns of some presets, and further ones."""

    def __init__(self, presets: Iterable[str], patterns: Iterable[str]) -> None:
        chosen = [PRESETS[name] for name in presets]
        self._own = [re.compile(pattern) for pattern in patterns]
        self._known: list[tuple[re.Pattern[str], Accepts]] = [
            (pattern, preset.accepts) for preset in chosen for pattern in preset.patterns
        ]
        self._unfinished = [preset.unfinished for preset in chosen]

    def __bool__(self) -> bool:
        return bool(self._known or self._own)

    def out_of(self, text: str) -> str:
        """The text with a mark in the place of each secret."""
        seen = _seen(text)
        for pattern, accepts in self._known:
            if places := list(_places(pattern, accepts, seen)):
                text = _replaced(text, places)
                seen = _seen(text)
        for pattern in self._own:
            text = _replaced(text, list(_places(pattern, bool, text)))
        return text

    def suspects(self, texts: list[str]) -> list[str]:
        """Of these texts, those in which there may be a secret; it may name more, never less.

        The patterns of presets look at many texts as one, which is much faster. A border looks to
        them as any character does that is no part of a word.
        """
        if self._own:
            return texts
        return [text for batch in _batches(texts) for text in self._suspects(batch)]

    def _suspects(self, texts: list[str]) -> list[str]:
        whole = _seen(_BORDER.join(texts))
        begins = list(accumulate((len(text) + 1 for text in texts), initial=0))
        found: set[int] = set()
        for pattern, _ in self._known:
            for hit in pattern.finditer(whole):
                first, last = (bisect_right(begins, at) - 1 for at in (hit.start(), hit.end() - 1))
                found.update(range(first, min(last + 1, len(texts))))
        return [texts[index] for index in sorted(found)]

    def unfinished(self, text: str) -> int:
        """The place from which the end of a text may become one; its length if none."""
        begin, seen = max(0, len(text) - MOST_HELD), _seen(text)
        escape = _BEGUN_ESCAPE.search(text, begin)
        if escape:  # it may become a letter, which goes on with the word before it
            seen = seen[: escape.start()] + _LETTER * len(escape[0])
        found = [pattern.search(seen, begin) for pattern in self._unfinished]
        if self._own:
            found.append(_LINE.search(text, begin))
        if found:
            found.append(escape)
        return min((each.start() for each in found if each), default=len(text))

    def outside(self, text: str, cut: int) -> int:
        """The nearest place, `cut` or before it, that is not in the middle of a secret."""
        seen = _seen(text)
        spans = [found.span() for pattern, _ in self._known for found in pattern.finditer(seen)]
        spans += [found.span() for pattern in self._own for found in pattern.finditer(text)]
        for begin, end in sorted(spans, reverse=True):
            if begin < cut < end:
                cut = begin
        return cut


def _seen(text: str) -> str:
    """A text as presets look at it; it is as long.

    An escape is part of a word only if it stands for a letter.
    """
    return _ESCAPES.sub(_unescaped, text) if "\\" in text else text


def _unescaped(found: re.Match[str]) -> str:
    is_letter = found["code"] is not None and chr(int(found["code"], 16)).isalnum()
    return (_LETTER if is_letter else "\n") * len(found[0])


def _batches(texts: list[str]) -> Iterator[list[str]]:
    """Yield the texts in batches of bounded size, unless one of them is longer.

    A search holds Python's lock: other threads get a turn between two of them.
    """
    batch, size = list[str](), 0
    for text in texts:
        batch.append(text)
        size += len(text) + 1
        if size >= _BATCH_CHARS:
            yield batch
            batch, size = [], 0
    yield batch


def _places(pattern: re.Pattern[str], accepts: Accepts, text: str) -> Iterator[tuple[int, int]]:
    group: str | int = GROUP if GROUP in pattern.groupindex else 0
    at = 0
    while found := pattern.search(text, at):
        # What a look at it refuses may hide a later beginning of one.
        accepted = found[group] is not None and found[group] != MARK and accepts(found[group])
        if accepted:
            yield found.span(group)
        at = max(found.end(), at + 1) if accepted else found.start() + 1


def _replaced(text: str, places: list[tuple[int, int]]) -> str:
    if not places:
        return text
    parts, at = list[str](), 0
    for begin, end in places:
        parts += text[at:begin], MARK
        at = end
    return "".join((*parts, text[at:]))
