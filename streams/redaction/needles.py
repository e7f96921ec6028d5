"""Finds any of many texts in another one, in a time that hardly depends on how many they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_FEW = 256
"""So many are looked for one by one, which is faster then."""

_CHUNK = 65_536


class Needles:
    """Texts of `least` characters or more; it does not change, so threads may share it."""

    def __init__(self, texts: Iterable[str], least: int) -> None:
        self.all = tuple(sorted(set(texts), key=len, reverse=True))
        """The longest first, so that a secret that another one contains does not hide that."""

        self._least = least
        self._longest = len(self.all[0]) if self.all else 0
        self._by_start: dict[str, list[str]] = {}
        for text in self.all:
            self._by_start.setdefault(text[:least], []).append(text)
        self._begun = {start[:size] for start in self._by_start for size in range(1, least)}

    def likely_in(self, text: str) -> Sequence[str]:
        """Those that a text may hold, the longest first; it may name more, never less."""
        if len(self.all) <= _FEW:
            return self.all
        found = {each for start in self._starts_in(text) for each in self._by_start[start]}
        return sorted(found, key=len, reverse=True)

    def unfinished(self, text: str) -> int:
        """The place from which the end of a text may begin one; its length if none."""
        for at in range(max(0, len(text) - self._longest + 1), len(text)):
            start = text[at : at + self._least]
            if len(start) < self._least:
                if start in self._begun:
                    return at
            elif any(each.startswith(text[at:]) for each in self._by_start.get(start, ())):
                return at
        return len(text)

    def outside(self, text: str, cut: int) -> int:
        """The nearest place, `cut` or before it, that is not in the middle of one."""
        for at in range(max(0, cut - self._longest + 1), cut):
            for each in self._by_start.get(text[at : at + self._least], ()):
                if at + len(each) > cut and text.startswith(each, at):
                    return at
        return cut

    def _starts_in(self, text: str) -> set[str]:
        found = set[str]()
        for begin in range(0, len(text), _CHUNK):
            part = text[begin : begin + _CHUNK + self._least - 1]
            ends = range(self._least, len(part) + 1)
            found |= self._by_start.keys() & {part[end - self._least : end] for end in ends}
        return found
