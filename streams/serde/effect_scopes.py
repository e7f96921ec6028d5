"""The scopes in which effects count: a job's own, or one that all jobs of a tenant share.

A job's scope begins with its id (`ids.scope_of`), which begins with `job_`. A shared scope begins
with `@`, and so does a job's note of a shared effect (`ledger_entries`). The name of a tool never
does, so neither a scope nor an action can be taken for the other kind.
"""

from __future__ import annotations

from typing import Final

JOB: Final = "job"
"""`once_per` of an effect that counts within its job."""
_SHARED = "@"


def effect_scope(job_scope: str, once_per: str) -> str:
    """The scope in which an effect counts; `once_per` is `job`, `tenant` or another name."""
    return job_scope if once_per == JOB else _SHARED + once_per


def is_shared(name: str) -> bool:
    """Whether a scope belongs to no job, or an action is a job's note of a shared effect."""
    return name.startswith(_SHARED)


def every_shared() -> str:
    """How the name of every shared scope begins."""
    return _SHARED


def once_per(scope: str) -> str:
    """The `once_per` of the effects in a scope."""
    return scope.removeprefix(_SHARED) if is_shared(scope) else JOB


def note_action(scope: str, action: str) -> str:
    """The action of a job's note of an effect in a shared scope."""
    return f"{scope}/{action}"


def full_action(scope: str, action: str) -> str:
    """The name under which people see an effect: that of a shared one begins with its scope."""
    return note_action(scope, action) if is_shared(scope) else action


def noted(note_action: str) -> tuple[str, str]:
    """The scope and the action of the shared effect that a note is about."""
    scope, _, action = note_action.partition("/")
    return scope, action
