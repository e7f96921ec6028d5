"""The tools that handlers call: they see what was really done, so they judge effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simulation.chance import Dice
from simulation.cluster import HOUR_MS
from streams.serde.effect_scopes import is_shared

Answer = Literal["ok", "refused", "unknown"]


class Violation(Exception):
    """A guarantee is broken: `name` is the invariant's."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Tool:
    """`key_ms`: for how long it swallows repetitions of a key; 0: it takes none."""

    name: str
    key_ms: int


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("mail:send", 0),
        Tool("pay:charge", 2 * HOUR_MS),
        Tool("crm:note", 400 * 24 * HOUR_MS),
    )
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call as its tool sees it; `root` is the request that the handler believes it serves.

    `digest` is that of its arguments.
    """

    at: int
    tool: str
    key: str
    tenant: str
    scope: str
    action: str
    root: str
    worker: str
    digest: bytes = b""


class Outside:
    """Every tool, and what became of each effect."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._seen: dict[tuple[str, str], int] = {}
        self._tries: dict[tuple[str, str], int] = {}
        self.kind = False
        """Whether tools answer everything: the world has healed."""
        self.done: dict[tuple[str, str, str], list[Call]] = {}
        """What really happened, by tenant, scope and action."""
        self.roots: dict[tuple[str, str], str] = {}
        """Whose work is done in a scope."""

    def call(self, call: Call) -> Answer:
        """One attempt of a handler.

        Raises:
            Violation: it is a repetition that must not be.
        """
        self._whose(call)
        die = self._die(call)
        if not self.kind and die < 0.08:
            return "refused"
        if not self.kind and die < 0.12:
            return "unknown"  # it never came here, and nobody can tell
        self._do(call)
        return "unknown" if not self.kind and die < 0.20 else "ok"

    def times(self, tenant: str, scope: str, action: str) -> int:
        return len(self.done.get((tenant, scope, action), ()))

    def _do(self, call: Call) -> None:
        tool = TOOLS[call.tool]
        effect = (call.tenant, call.scope, call.action)
        if tool.key_ms:
            first = self._seen.get((call.tool, call.key))
            if first is not None and call.at - first < tool.key_ms:
                if effect not in self.done:
                    raise Violation("effect_swallowed", f"{call}: its key was used before")
                return
            self._seen[call.tool, call.key] = call.at
        done = self.done.setdefault(effect, [])
        done.append(call)
        if len(done) > 1:
            raise Violation("effect_twice", f"{done[0]}, then {call}")

    def _whose(self, call: Call) -> None:
        if is_shared(call.scope):
            return
        root = self.roots.setdefault((call.tenant, call.scope), call.root)
        if root != call.root:
            raise Violation("scope_of_two", f"scope {call.scope} served {root}, now {call.root}")

    def _die(self, call: Call) -> float:
        # By request, not by scope or call: a story with an operation less has the same tools.
        which = (call.root, call.action)
        tries = self._tries[which] = self._tries.get(which, 0) + 1
        return self._dice.of("tool", *which, tries).random()
