"""The ids of a job's steps and waits: a branch, a name, and an ordinal or a key, as one text.

    draft                   the first call of this name
    draft#2                 the second one
    draft[order 7]          the call with the key "order 7"
    replies/draft           the first one in the branch "replies"
    draft()/ask             the first call that the function of the step "draft" makes
    !new greeting           the mark of `ctx.patched("new greeting")`
    !effect[pay:refund%2F7]  the approval that the effect "pay:refund/7" waits for
    answer!                 how far the wait "answer" had got when it was dropped
    answer!1f...            how far the waits "answer" of this digest had got in the life before
    refund[order 7]!end     the end of the job that the call "refund[order 7]" asked for
    gather[digests]/3       the fourth job of the gather "digests"
    !!heartbeat             the newest details of `ctx.heartbeat`

Two different calls never have one id: the characters `/ # [ ] ( ) !` and `%` of a name or key are
percent-encoded (`a/b` becomes `a%2Fb`).
"""

from __future__ import annotations

import re
from urllib.parse import unquote

CHILD = "child"
"""The kind of what a call leaves that asks for a job."""
HEARTBEAT = "heartbeat"
"""The kind of what `ctx.heartbeat` leaves, under one id for the whole job."""
HEARTBEAT_ID = "!!heartbeat"
_SEPARATOR = "/"
_PROPOSAL = "!"
_NOTE = re.compile(r"![0-9a-f]*\Z")
_CODES = str.maketrans({char: f"%{ord(char):02X}" for char in "%/#[]()!"})


def branch_path(outer: str, name: str) -> str:
    """The path of the branch `name` in the branch `outer`; the handler itself is in ""."""
    return outer + name.translate(_CODES) + _SEPARATOR


def inside_path(id_: str) -> str:
    """The path of the branch of what the function of this step or effect calls."""
    return f"{id_}(){_SEPARATOR}"


def caller_of(path: str) -> str:
    """The id of the step or effect whose function is in this branch; "" for the handler itself."""
    return path.rpartition(f"(){_SEPARATOR}")[0]


def is_inside(path: str) -> bool:
    """Whether a branch is one of what the function of a step or effect calls."""
    return f"(){_SEPARATOR}" in path


def step_id(branch: str, name: str, ordinal: int = 1, key: str | None = None) -> str:
    """The id of a call in the branch with this path; with a key, the ordinal does not count."""
    text = branch + name.translate(_CODES)
    if key is not None:
        return f"{text}[{key.translate(_CODES)}]"
    return text if ordinal == 1 else f"{text}#{ordinal}"


def mark_id(branch: str, name: str) -> str:
    """The id of the mark that `ctx.patched` leaves in a branch."""
    return f"{branch}!{name.translate(_CODES)}"


def proposal_id(action: str) -> str:
    """The id of the wait for people to approve an effect that its handler just asks for.

    No call has it, whatever its name, and no mark, which has no key.
    """
    return _PROPOSAL + step_id("", "effect", key=action)


def is_proposal_id(id_: str) -> bool:
    """Whether an approval's wait is the one of an effect that its handler just asks for."""
    return id_.startswith(_PROPOSAL)


def shown_id(id_: str) -> str:
    """An id as people read it: what an effect waits for is told by the effect's name."""
    _, key, action = id_.partition("[")
    return unquote(action.removesuffix("]")) if key and is_proposal_id(id_) else id_


def passed_id(id_: str) -> str:
    """The id of the note how far a dropped wait with this id had got."""
    return f"{id_}!"


def seen_id(id_: str, digest: bytes) -> str:
    """The id of the note how far the waits of a name and digest had got in the job's life before.

    It is made of the id of one of them, or of a note about one.
    """
    outer, separator, own = id_.rpartition(_SEPARATOR)
    name = re.split(r"[#\[!]", own, maxsplit=1)[0]
    return f"{outer}{separator}{name}!{digest.hex()}"


def is_note(id_: str) -> bool:
    """Whether an id is that of a note about a wait: `passed_id` and `seen_id` give such ids."""
    return _NOTE.search(id_.rpartition(_SEPARATOR)[2].lstrip("!")) is not None


def end_id(id_: str) -> str:
    """The id of the wait for the end of the job that the call with this id asked for."""
    return f"{id_}!end"


def gathered_id(gather: str, index: int, key: str | None) -> str:
    """The id by which a gather asks for one of its jobs: its key, or its place in the list."""
    return gather + _SEPARATOR + (str(index) if key is None else step_id("", "", key=key))


def branch_of(id_: str) -> str:
    """The path of the branch that an id belongs to."""
    outer, separator, _ = id_.rpartition(_SEPARATOR)
    return outer + separator
