"""How large records and their parts may be; `topology/sizes.py` checks the topics against it."""

from __future__ import annotations

PRODUCER_BATCH_BYTES = 1_000_000
"""The most that a producer sends as one batch, framing included: see `streams/kafka/clients.py`.

A broker measures whole batches: a topic with a lower limit refuses even small records.
"""

CHUNK_BYTES = 512 * 1024
"""The size of a body's part in one record on `payloads`, before it is sealed."""

MAX_BODY_BYTES = 25 * 1024 * 1024
"""The most that a source may take of a body."""

MAX_ARTIFACT_BYTES = 64 * 1024 * 1024
"""The most for one artifact: whoever reads or writes it has it in memory as a whole."""

NONCE_BYTES = 12
"""The size of the nonce before each AES-GCM ciphertext (NIST SP 800-38D)."""

MAX_VALUE_BYTES = 256 * 1024
"""The most for a step's value, an effect's or handler's result, a progress: each is one record."""

MAX_LEASE_BYTES = 900 * 1024
"""The most for a lease, which has to fit a message of 1 MB with its input and finished steps."""

MAX_JOB_BYTES = 900 * 1024
"""The most that a record may make of a job, which has to fit a message of 1 MB, also in its dead
letter. The dispatcher itself adds up to 40 KiB of history."""

MAX_JOB_TYPES_BYTES = 700 * 1024
"""The most for what an application announces of its job types: it is one record."""

MAX_WAITS_BYTES = 256 * 1024
"""The most for the texts of a job's open waits, which its record and that of a park have."""
MAX_BATCH_BYTES = 400 * 1024
"""The most for the events of a batch without their bodies: a job and its lease have them all."""

MOST_EVENT_IDS = 1_000
"""How many events a job names at most that it stands for; it counts the others."""

MAX_LETTER_VALUE_BYTES = 900 * 1024
MAX_LETTER_KEY_BYTES = 64 * 1024
"""How much of its record's value and key a dead letter keeps."""

MAX_LETTER_BYTES = 1_030_000
"""The most for key and value of a record that brings a letter back. The stage's answer, in the same
letter, is up to 2 KiB larger, and has to fit a message of 1 MB."""
