"""Reads the headers of a record, whatever their names are.

A header's name has to be UTF-8 (Kafka protocol guide, "Record"), and no broker checks that. For a
name that is not, the client sets an error and still returns a list, with a null pointer in place of
the name: to touch it ends the process. The interpreter does not look for that error after a call of
`message.headers()` that it has specialized (PEP 659), so the call must come from C code.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller

from confluent_kafka import Message

_headers = methodcaller("headers")


def headers_of(message: Message) -> Sequence[tuple[str, bytes]]:
    """Return the headers of a record; none of them if a name is not UTF-8.

    Call it once for each message: the second call would return the list with the null pointer. No
    process of ours writes such a name, so the other headers of the record are not ours either.
    """
    try:
        return _headers(message) or ()
    except (UnicodeDecodeError, SystemError):
        return ()
