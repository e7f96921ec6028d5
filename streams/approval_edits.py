"""What a person changes in the effects that they approve.

An edit of one effect is an object with its changed arguments, by their names. An edit of several is
a list of `{"tool", "key", "arguments"}`, one for each effect that is changed. An approval without
effects takes any JSON, which its handler gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from streams import user_json
from streams.serde.records import ApprovalEffect

Arguments = dict[str, Any]

MAX_EDIT_BYTES = 64 * 1024
"""Of an edit with the whole arguments that it leads to: the job's next runs carry it."""


class Edited(NamedTuple):
    """What is sealed of an edit, and the digest of each effect's arguments with it.

    Without effects, there is one digest: that of the edit.
    """

    value: dict[str, Any]
    digests: tuple[bytes, ...]


def edited(effects: Sequence[ApprovalEffect], asked: Sequence[Arguments], edit: Any) -> Edited:
    """The effects with an edit; `asked` are their arguments, in the same order.

    Raises:
        ValueError: the edit does not fit the effects; it says why.
    """
    changes = _changes(effects, edit)
    given = {effect.action: arguments for effect, arguments in zip(effects, asked, strict=True)}
    for action, changed in changes.items():
        _check_names(action, changed, given.get(action))
    arguments = [given[action] | changes.get(action, {}) for action in given]
    value = {"edit": edit, "arguments": arguments}
    if len(user_json.write(value)) > MAX_EDIT_BYTES:
        raise ValueError(f"the edit with all arguments has more than {MAX_EDIT_BYTES:,} bytes")
    return Edited(value, tuple(map(user_json.digest, arguments if effects else [edit])))


def _check_names(action: str, changed: Arguments, asked: Arguments | None) -> None:
    """Refuse other names than those of the arguments: a misspelt one would change nothing."""
    if asked is None:
        raise ValueError(f"the approval has no effect {action}")
    unknown = sorted(set(changed) - set(asked))
    if unknown:
        raise ValueError(f"effect {action} has no argument {unknown[0]!r}: change those it has")


def _changes(effects: Sequence[ApprovalEffect], edit: Any) -> dict[str, Arguments]:
    """The changed arguments of each effect, by its action."""
    if not effects:
        return {}
    if isinstance(edit, dict) and len(effects) == 1:
        return {effects[0].action: edit}
    if not isinstance(edit, list) or not all(map(_is_effect, edit)):
        raise ValueError(
            "give an object with the changed arguments of the one effect, or a list of "
            '{"tool", "key", "arguments"}'
        )
    changes = {f"{each['tool']}/{each['key']}": each["arguments"] for each in edit}
    if len(changes) < len(edit):
        raise ValueError("the edit changes one effect twice: name each once")
    return changes


def _is_effect(value: Any) -> bool:
    named = isinstance(value, dict) and set(value) == {"tool", "key", "arguments"}
    return named and isinstance(value["arguments"], dict)
