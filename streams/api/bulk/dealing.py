"""Deals with one item of a bulk act, as its action says."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace

import structlog

from streams.access.authentication import Withdrawn
from streams.access.principal import Principal
from streams.api.bulk.action import Action, Dealt, Doing, failed
from streams.api.bulk.actions import ACTIONS
from streams.api.fields import validated
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.rows.json_values import parsed
from streams.bulk.act import Act
from streams.errors import KafkaUnavailable, RecordTooLarge, TransientError
from streams.serde import ids
from streams.serde.bulk_records import ASKED, ITEM_DONE, BulkAsked, BulkItem

log = structlog.get_logger(__name__)

Withdrawing = Callable[[str, int], Withdrawn | None]
"""Says why a principal who asked at a time (ms) may operate no more; None if it may."""

PASSING = frozenset({"not-ready", "not-shown", "kafka-unavailable", "backlog-full"})
"""Refusals that pass by themselves: the same call is done a while later."""
_ENDED = {
    "expired": "the token of who asked has expired: begin another act with a newer one",
    "revoked": "the token of who asked is revoked: begin another act with one of your own",
    "restricted": "the token of who asked may not operate any more: begin another act with one "
    "that may",
}
_DETAIL_CHARACTERS = 1_000


async def deal(state: AppState, withdrawn: Withdrawing, act: Act, item: BulkItem) -> BulkItem:
    """Return an item with what became of it; nothing is done for who may operate no more.

    An error that may stay, whosever fault it is, fails the item: the act goes on with others.

    Raises:
        KafkaUnavailable: it passes by itself, and the item is to be dealt with once more.
    """
    asked = act.asked
    action = None if asked is None else ACTIONS.get(asked.action)
    if asked is None or action is None:
        return failed(item, "action_unknown", "this release of the operator has no such action")
    if ended := withdrawn(act.asked_by, act.asked_at):
        return failed(item, f"asker_{ended}", _ENDED[ended])
    try:
        await _shown(state, action, asked)
        dealt = await _dealt(_in_the_name(state, act, asked, item), action, act, item)
    except Exception as error:
        if _passes(error) or not state.ready():
            raise KafkaUnavailable(f"{item.item}: {error}") from error
        return _failed(act, item, error)
    return replace(item, outcome=ITEM_DONE if dealt.seen else ASKED, made=dealt.made)


async def _shown(state: AppState, action: Action, asked: BulkAsked) -> None:
    """Return once the rows are as new as those from which an act was planned.

    Another operator may have planned it, and a row that is not there yet is no fault of the item.

    Raises:
        KafkaUnavailable, Refusal: rows are missing: deal with the item once more.
    """
    if not state.ready():
        raise KafkaUnavailable("the operator is reading its topics")
    topic = action.table.topic
    places = {(topic, int(number)): at for number, at in asked.positions.items()}
    late = [place for place, at in places.items() if state.follower.folded(place) < at]
    await state.read_barrier(*late)


async def _dealt(state: AppState, action: Action, act: Act, item: BulkItem) -> Dealt:
    assert act.asked is not None  # noqa: S101  the caller has looked
    params = validated(parsed(act.asked.params), action.params)
    key = f"{act.bulk_id}:{item.item}"
    return await action.deal(state, Doing(item.item, item.tenant_id, act.asked.note, params, key))


def _passes(error: Exception) -> bool:
    """Return whether the same call is done a while later though nobody does anything about it."""
    match error:
        case Refusal():
            return error.name in PASSING or isinstance(error.__cause__, TransientError)
        case RecordTooLarge():
            return False
    return isinstance(error, KafkaUnavailable | sqlite3.Error)


def _failed(act: Act, item: BulkItem, error: Exception) -> BulkItem:
    match error:
        case Refusal():
            reason, detail = error.name.replace("-", "_"), error.detail
        case RecordTooLarge():
            reason, detail = "record_too_large", str(error)
        case _:
            log.error(
                "an item of a bulk act failed",
                bulk_id=act.bulk_id,
                item=item.item,
                exc_info=error,
            )
            reason = "internal_error"
            detail = f"{type(error).__name__}: the operator's log says where"
    return failed(item, reason, detail[:_DETAIL_CHARACTERS])


def _in_the_name(state: AppState, act: Act, asked: BulkAsked, item: BulkItem) -> AppState:
    """Return the operator's parts as those who asked see them, with the item's own command id."""
    tenants = None if asked.tenants is None else frozenset(asked.tenants)
    principal = Principal(act.asked_by, act.asked_by, asked.role, frozenset(), tenants)
    command_id = ids.bulk_command_id(act.bulk_id, item.item)
    return replace(state.asked_by(principal, act.bulk_id), command_id=command_id)
