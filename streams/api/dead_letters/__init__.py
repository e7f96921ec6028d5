"""Dead letters: jobs and records that failed for good, sent in again or discarded."""
