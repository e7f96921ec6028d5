"""The actions of bulk acts: a new one is one line here, and what it names."""

from __future__ import annotations

from streams.api.bulk import (
    dead_letter_actions,
    delivery_actions,
    job_actions,
    quarantine_actions,
)
from streams.api.bulk.action import Action

ACTIONS: dict[str, Action] = {
    action.name: action
    for action in (
        dead_letter_actions.REPLAY,
        dead_letter_actions.EDIT,
        dead_letter_actions.DISCARD,
        dead_letter_actions.MANUAL,
        dead_letter_actions.DONE,
        job_actions.CANCEL,
        job_actions.MOVE,
        delivery_actions.RETRY,
        delivery_actions.RECOVER,
        quarantine_actions.RELEASE,
    )
}
