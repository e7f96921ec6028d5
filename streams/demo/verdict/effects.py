"""Which calls of a side effect were too many, and which repetitions a kill explains (G2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from streams.demo.run.kill import Kill
from streams.demo.world.recorder import Call

HONOURS_KEYS = frozenset({"email:send"})
"""Tools that recognise a second call under one key as a repetition."""

_RECORDED_SECONDS = 2.0
"""How long after its answer a call may still be unrecorded when its worker dies."""

Effect = tuple[str, str, str]
"""Tenant, external id, action."""


@dataclass(frozen=True)
class Repeats:
    """The result of counting the calls of all side effects.

    `same_key`: repeated under the tool's key because a kill left the outcome unknown. `duplicates`:
    a sentence for every call that nothing excuses.
    """

    effects: int
    calls: int
    same_key: int
    duplicates: tuple[str, ...]

    @property
    def executed(self) -> int:
        """How often the outside world did something."""
        return self.calls - self.same_key


def by_effect(calls: Iterable[Call]) -> dict[Effect, list[Call]]:
    """Calls in the order in which they began, for each side effect."""
    grouped: dict[Effect, list[Call]] = defaultdict(list)
    for call in sorted(calls, key=lambda call: call.began_at):
        grouped[call.caller.tenant_id, call.external_id, call.action].append(call)
    return grouped


def count_repeats(calls: Iterable[Call], kills: Iterable[Kill]) -> Repeats:
    """Sort every repeated call of a side effect into excused and not excused."""
    grouped, struck = by_effect(calls), tuple(kills)
    same_key, duplicates = 0, []
    for effect, made in grouped.items():
        for index in range(1, len(made)):
            fault = _fault(made[:index], made[index], struck)
            if fault is None:
                same_key += 1
            else:
                duplicates.append(
                    f"{'/'.join(effect)}: {fault} ({_when(made[index - 1], made[index])})"
                )
    total = sum(map(len, grouped.values()))
    return Repeats(len(grouped), total, same_key, tuple(duplicates))


def _fault(earlier: list[Call], call: Call, kills: tuple[Kill, ...]) -> str | None:
    """Why a repeated call is a fault; None if key and kill excuse it."""
    if call.action not in HONOURS_KEYS:
        return "called again, and the tool honours no keys"
    if call.key is None or {before.key for before in earlier} != {call.key}:
        return "called again under another key"
    if not any(_cut_short(earlier[-1], call, kill) for kill in kills):
        return "called again under the same key, with no kill in flight to explain it"
    return None


def _when(first: Call, second: Call) -> str:
    answered = "never" if first.answered_at is None else f"{first.answered_at:.3f}"
    return (
        f"process {first.caller.pid} at {first.began_at:.3f}, answered {answered}; then "
        f"process {second.caller.pid} at {second.began_at:.3f}"
    )


def _cut_short(first: Call, second: Call, kill: Kill) -> bool:
    """Whether the kill struck the first call's worker before its outcome can have been recorded."""
    ended = float("inf") if first.answered_at is None else first.answered_at + _RECORDED_SECONDS
    return kill.pid == first.caller.pid and first.sent_at <= kill.at <= min(ended, second.began_at)
