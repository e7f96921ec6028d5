"""What jobs of trees do, and what each of their calls asks for: all follows from their input."""

from __future__ import annotations

from random import Random

import orjson
from support.tree_script import Size, TreeScript

from streams.serde.step_ids import gathered_id, step_id
from streams.worker.handler.children import ChildCall, child_call

TREE = "tree"
"""The type of jobs that ask for others."""
GATHER = "g"
GATHER_ID = step_id("", "gather", key=GATHER)
_SIZE = Size(levels=2, counts=(0, 0, 2, 4))
_LEAVES = ("leaf", "leaf", "pay", "note", "nap", "refund")
_DELAYS = (None, None, None, None, 7)


def script_of(root: str, text: str) -> TreeScript:
    """What a job of the type `tree` does; the input of a root of a tree says nothing of it."""
    return TreeScript({"salt": root, **(orjson.loads(text) or {})}, _SIZE)


def child_root(tenant: str, scope: str, call: str) -> str:
    """The root in the input of a job that a call asks for: another one in each scope."""
    return f"kid_{tenant}-{scope}/{call}"


def enqueued(script: TreeScript, name: str, tenant: str, scope: str) -> ChildCall:
    """The job that a tree asks for by itself."""
    return _asked(script, name, enqueued_id(script, name), tenant, scope, key=name)


def enqueued_id(script: TreeScript, name: str) -> str:
    """The id of the call that asks for it."""
    return step_id("", _type_of(script, name), key=name)


def gathered(script: TreeScript, tenant: str, scope: str) -> list[ChildCall]:
    """The list that a tree gathers."""
    names = [gathered_id(GATHER_ID, place, None) for place in range(script.count)]
    return [_asked(script, name, name, tenant, scope, key=None) for name in names]


def next_input(script: TreeScript) -> str:
    """The input of the next life of a job: it serves the same request."""
    return orjson.dumps(script.next_turn()).decode()


def _asked(
    script: TreeScript, name: str, call: str, tenant: str, scope: str, key: str | None
) -> ChildCall:
    data = {"root": child_root(tenant, scope, call), "tenant": tenant, **script.below(name)}
    delay = Random(f"delay of {script.salt}/{name}").choice(_DELAYS)
    on_parent = "abandon" if name in script.abandoned else "cancel"
    return child_call(_type_of(script, name), data, key, None, delay, on_parent)


def _type_of(script: TreeScript, name: str) -> str:
    """Half of the jobs are trees themselves, but on the last level."""
    chance = Random(f"type of {script.salt}/{name}")
    has_room = script.below(name)["level"] < _SIZE.levels
    return TREE if has_room and chance.random() < 0.5 else chance.choice(_LEAVES)
