"""The values of credentials that this process has got, in each form that a text may have."""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from streams.redaction.needles import Needles

MARK = "[redacted]"
"""What stands in the place of a secret."""

LEAST_CHARS = 6
"""A shorter value would be found everywhere."""

_MOST = 1_000

_LEFT_IN_URLS = ("", "/", "?/:@!$'()*,", "/:@!$'()*,=+&;", "?/:@!$'()*,=+&;")
"""Signs that URLs may have as they are: those of the standard library, and those of `ctx.http` in a
parameter, a path and a whole query."""

_DEEPEST_GROUP = 5
_OF_URLS = str.maketrans("+/", "-_")


class KnownSecrets:
    """The last thousand values; other threads may read while the event loop adds one."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._needles = Needles((), LEAST_CHARS)

    @property
    def forms(self) -> tuple[str, ...]:
        """All forms of all values."""
        return self._needles.all

    def add(self, value: str) -> None:
        """Take a value out from now on; it counts as used now."""
        if value in self._values:
            self._values.move_to_end(value)
            return
        text = str(value)
        # A handler may leave out what stands around it, as the line's end in many a file.
        self._values[text] = tuple({*_forms(text), *_forms(text.strip())})
        if len(self._values) > _MOST:
            self._values.popitem(last=False)
        found = (form for forms in self._values.values() for form in forms)
        self._needles = Needles(found, LEAST_CHARS)

    def are_in(self, text: str) -> bool:
        """Whether a text holds one of them."""
        return any(form in text for form in self._needles.likely_in(text))

    def out_of(self, text: str) -> str:
        """The text without them."""
        for form in self._needles.likely_in(text):
            if form in text:
                text = text.replace(form, MARK)
        return text

    def unfinished(self, text: str) -> int:
        """The place from which the end of a text may begin one; its length if none."""
        return self._needles.unfinished(text)

    def outside(self, text: str, cut: int) -> int:
        """The nearest place, `cut` or before it, that is not in the middle of one."""
        return self._needles.outside(text, cut)


def _forms(value: str) -> Iterator[str]:
    """Yield the value as it is, and as JSON, Python, URLs and base64 write it.

    JSON and Python may write each other, as where an error shows a request whose body is JSON.
    """
    raw = value.encode("utf-8", "surrogatepass")
    once = set(_escaped(value))
    found = {
        value,
        *once,
        *(twice for written in once for twice in _escaped(written)),
        *(write(raw, safe=left) for left in _LEFT_IN_URLS for write in (quote, quote_plus)),
        *_in_groups(value),
        *_in_base64(raw),
    }
    yield from (form for form in found if len(form) >= LEAST_CHARS)


def _escaped(value: str) -> Iterator[str]:
    """Yield a value as JSON and Python write it inside of a text.

    Python escapes one kind of quotes, but only in a text that has both kinds.
    """
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    parts = [repr(part)[1:-1] for part in value.split("'")]
    yield "'".join(parts)
    yield "\\'".join(parts)


def _in_groups(value: str) -> Iterator[str]:
    """Yield a value of several lines as the traceback of an exception group writes it."""
    if "\n" in value:
        for depth in range(1, _DEEPEST_GROUP + 1):
            yield value.replace("\n", f"\n{'  ' * depth}| ")


def _in_base64(raw: bytes) -> Iterator[str]:
    """Yield a value as base64 writes it: alone, and wherever it stands among other bytes.

    So it stands behind the user's name in the header of HTTP's Basic authentication. The signs at
    its edges have bits of what is beside it, so these are no part of the form.
    """
    for before, first in enumerate((0, 2, 3)):
        text = base64.b64encode(bytes(before) + raw).decode().rstrip("=")
        last = (before + len(raw)) * 8 // 6
        for found in (text, text.translate(_OF_URLS)):
            yield found[first:last]
            if before == 0:
                yield found
