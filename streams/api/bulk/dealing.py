"""Deals with one item of a bulk act, as its action says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streams.access.principal import Principal
from streams.api.bulk.action import Doing, failed
from streams.api.bulk.actions import ACTIONS
from streams.api.fields import validated
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.rows.json_values import parsed
from streams.bulk.act import Act
from streams.errors import KafkaUnavailable
from streams.serde import ids
from streams.serde.bulk_records import ASKED, ITEM_DONE, BulkAsked, BulkItem

_TOO_MANY_REQUESTS = 429
_DETAIL_CHARACTERS = 1_000


async def deal(
    state: AppState, is_revoked: Callable[[str], bool], act: Act, item: BulkItem
) -> BulkItem:
    """Return an item with what became of it; nothing is done in the name of a revoked token.

    Raises:
        KafkaUnavailable: it is no fault of the item, which is to be dealt with once more.
    """
    asked = act.asked
    action = None if asked is None else ACTIONS.get(asked.action)
    if asked is None or action is None:
        return failed(item, "action_unknown", "this release of the operator has no such action")
    if is_revoked(act.asked_by):
        told = "the token of who asked is revoked: begin another act with one of your own"
        return failed(item, "asker_revoked", told)
    try:
        params = validated(parsed(asked.params), action.params)
        key = f"{act.bulk_id}:{item.item}"
        doing = Doing(item.item, item.tenant_id, asked.note, params, key)
        dealt = await action.deal(_in_the_name(state, act, asked, item), doing)
    except Refusal as refusal:
        if refusal.status >= 500 or refusal.status == _TOO_MANY_REQUESTS:
            raise KafkaUnavailable(f"{item.item}: {refusal.detail}") from refusal
        reason = refusal.name.replace("-", "_")
        return failed(item, reason, refusal.detail[:_DETAIL_CHARACTERS])
    return replace(item, outcome=ITEM_DONE if dealt.seen else ASKED, made=dealt.made)


def _in_the_name(state: AppState, act: Act, asked: BulkAsked, item: BulkItem) -> AppState:
    """Return the operator's parts as those who asked see them, with the item's own command id."""
    tenants = None if asked.tenants is None else frozenset(asked.tenants)
    principal = Principal(act.asked_by, act.asked_by, asked.role, frozenset(), tenants)
    command_id = ids.bulk_command_id(act.bulk_id, item.item)
    return replace(state.asked_by(principal, act.bulk_id), command_id=command_id)
