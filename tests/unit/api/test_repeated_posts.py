"""Every POST says what a repetition of it does; a new one has to say so, too."""

from __future__ import annotations

from streams.api.serving.call import call_of
from streams.api.serving.routes import routes

OF_ITS_KEY = {
    "job.submit": "the job's id is made of the key",
    "dead_letter.replay": "the new job's id is made of the key; a record is sent in again once",
    "endpoint.recover": "the command's id is made of the key",
    "replay.begin": "the replay's id is made of the key",
    "bulk.begin": "the act's id is made of the key",
    "token.make": "the token's id is made of the key; its text is not shown again",
}
"""What takes an `Idempotency-Key` in a way of its own."""

ALIKE = {
    "session.logout": "the session has ended",
    "session.end": "the sessions have ended",
    "session.link": "nothing is written: another link, which ends unused in two minutes",
    "source.sign": "nothing is written",
    "quarantine.preview": "nothing is written",
    "dead_letter.preview": "nothing is written",
    "vault.rewrap": "what is sealed under the first key stays",
    "tenant.erase": "what is left is deleted",
    "job.move_all": "those that are in the pool already are not moved",
    "limit.pause": "it is paused already",
    "limit.resume": "it goes on already",
    "dead_letter.replay_all": "each letter is replayed once",
    "cause.resolve": "it is resolved already, unless a letter came in between",
    "cause.ignore": "it is ignored already, until the same time",
    "cause.reopen": "it is open already",
    "dead_letter.discard": "it is discarded already",
    "dead_letter.manual": "it is manual work already",
    "dead_letter.done": "it is done already",
    "quarantine.release": "the event has its id, and is dropped as a duplicate",
    "event.submit": "each event has its dedup key",
    "replay.pause": "it stands still already",
    "replay.resume": "it goes on already",
    "bulk.pause": "it stands still already",
    "bulk.resume": "it goes on already",
    "bulk.cancel": "it has ended",
}
"""Where a repetition leaves things as the first call left them."""

BY_IF_MATCH = {
    "source.rotate": "with `If-Match`, a repetition is refused: the source has another ETag",
    "endpoint.rotate": "with `If-Match`, a repetition is refused: the endpoint has another ETag",
}


def test_every_post_says_what_a_repetition_does() -> None:
    calls = [found for each in routes() if (found := call_of(getattr(each, "handler", None)))]
    posts = [call for call in calls if call.method == "POST" and call.verb]
    told = [*OF_ITS_KEY, *ALIKE, *BY_IF_MATCH]
    assert len(told) == len(set(told))
    keyed = {call.verb for call in posts if call.is_keyed}
    assert not keyed & set(told)
    silent = {call.verb for call in posts} - keyed - set(told)
    assert silent == set(), "declare it `is_keyed`, or name here what a repetition does"
    assert set(told) <= {call.verb for call in posts}
    assert {c.verb for c in posts if c.tagged and not c.is_keyed} == set(BY_IF_MATCH)
