"""Faults put into what the dispatcher does with jobs of jobs, to prove that judges see them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from streams.dispatcher import children, gathers, tree
from streams.dispatcher.parts import children as children_part
from streams.dispatcher.parts import gathers as gathers_part
from streams.new_jobs import FIRST, from_child
from streams.serde.ids import child_job_id


@contextmanager
def first_child_before_the_seal() -> Iterator[None]:
    """The first job of a page is made although the list is not sealed."""
    original = gathers_part.Gathers.add

    def add(self: Any, step: Any, command: Any, body: Any, at: int) -> None:
        job = step.leased(command.job_id)
        if job is None or job.cancel_requested or gathers.find(step, job, body.id) is not None:
            original(self, step, command, body, at)
        else:
            children.make(step, tree.in_workflow(step, job), body.children[0], body.id)

    with patch.object(gathers_part.Gathers, "add", add):
        yield


@contextmanager
def child_made_twice() -> Iterator[None]:
    """A call that is repeated makes its job again."""

    def make(step: Any, parent: Any, spec: Any, gather: str = "") -> Any:
        id_ = child_job_id(parent.tenant_id, parent.scope, spec.call)
        made = from_child(id_, parent, spec, gather, step.topology, place=FIRST, now=step.now)
        return children._admit(step, made)

    with _all(patch.object(part, "make", make) for part in (children_part, gathers_part)):
        yield


@contextmanager
def grandchild_after_cancel() -> Iterator[None]:
    """What ends a job goes down no further than that job."""
    part = children_part.Children
    goes_on = patch.object(part, "may_go_on", lambda *_: True)
    with goes_on, patch.object(children_part, "stop_below", lambda *_: None):
        yield


@contextmanager
def end_not_counted() -> Iterator[None]:
    """A gather does not hear of the end of its jobs."""
    with patch.object(gathers_part.Gathers, "_count", lambda *_: None):
        yield


@contextmanager
def _all(patches: Iterator[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield
