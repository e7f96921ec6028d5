"""Time zones of the pinned package `tzdata`.

The zone files of the system are not used: two processes would otherwise disagree about a time, and
nobody could tell which rules had applied.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import tzdata

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def version() -> str:
    """The release of the rules, as `2026f`."""
    release: str = tzdata.IANA_VERSION
    return release


@lru_cache(maxsize=1_000)
def zone(name: str) -> ZoneInfo:
    """The rules of a zone.

    Raises:
        LookupError: there is no such zone.
    """
    if name not in _names():
        raise LookupError(f"there is no time zone {name!r}: give one as Europe/Berlin, or UTC")
    with files(tzdata).joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def wall(moment: int, rules: ZoneInfo) -> datetime:
    """What a wall clock shows at a moment (milliseconds), without its zone."""
    return (_EPOCH + moment * _MS).astimezone(rules).replace(tzinfo=None)


def moments(shown: datetime, rules: ZoneInfo) -> tuple[int, ...]:
    """The moments (milliseconds) at which a wall clock shows a time: one, two, or none.

    It shows a time twice when it is set back, and never when it is set forward past it (PEP 495).
    """
    early, late = (_offset(shown, rules, fold) for fold in (0, 1))
    if early < late:
        return ()
    return tuple(dict.fromkeys(_moment(shown, offset) for offset in (early, late)))


def first_after(shown: datetime, rules: ZoneInfo) -> int:
    """The moment (milliseconds) at which a wall clock is set forward past a time."""
    before = _moment(shown, _offset(shown, rules, 1))
    behind = _moment(shown, _offset(shown, rules, 0))
    new = _offset(shown, rules, 1)
    while behind - before > 1:
        middle = (before + behind) // 2
        if (_EPOCH + middle * _MS).astimezone(rules).utcoffset() == new:
            behind = middle
        else:
            before = middle
    return behind


@cache
def _names() -> frozenset[str]:
    return frozenset(files(tzdata).joinpath("zones").read_text().split())


def _offset(shown: datetime, rules: ZoneInfo, fold: int) -> timedelta:
    return shown.replace(tzinfo=rules, fold=fold).utcoffset() or timedelta()


def _moment(shown: datetime, offset: timedelta) -> int:
    return (shown.replace(tzinfo=UTC) - offset - _EPOCH) // _MS
