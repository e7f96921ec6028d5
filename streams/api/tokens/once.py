"""Makes a token once for an `Idempotency-Key`, on whichever operator the calls come in.

A repetition cannot show the token's text again, which nobody keeps: it is told the token's id.
"""

from __future__ import annotations

from contextlib import suppress

from streams.access.authentication import Authentication
from streams.access.token_records import PARTITION, TokenGrant
from streams.api.operator_state import SETTINGS_WRITER, AppState, tenant_record
from streams.api.refusal import Refusal
from streams.api.tokens.last_administrator import learn
from streams.errors import KafkaUnavailable
from streams.kafka.fenced_write import Unsettled
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key

_MOST_TRIES = 5


async def write_once(state: AppState, access: Authentication, grant: TokenGrant, now: int) -> None:
    """Write a token, unless there is one of its id.

    Raises:
        Refusal: 409, there is one; 503, the read model is late: call again.
        KafkaUnavailable: it was not acknowledged: call again.
    """
    record = grant.record(now)
    for _ in range(_MOST_TRIES):
        write = await state.fenced.open()
        await learn(state, access)
        known = access.book.grant(grant.id)
        if known is not None and known.digest == grant.digest:
            return  # committed by the try before, which saw no answer
        if known is not None:
            raise _made_before(known)
        told = await state.chained(SETTINGS_WRITER, state.entry(grant.id, after=record))
        with suppress(Unsettled):
            await write.commit(tenant_record(grant.key, record, PARTITION), *told)
            access.book.apply(tenant_key(*grant.key), TENANT.encode(record))
            return
    raise KafkaUnavailable("other writers came before this one again and again")


def _made_before(known: TokenGrant) -> Refusal:
    detail = (
        f"this key has made token {known.id} ({known.name}), whose text was shown once: if it is "
        "lost, revoke that token and make another one under a new key"
    )
    return Refusal(409, "key-reused", detail, token_id=known.id)
