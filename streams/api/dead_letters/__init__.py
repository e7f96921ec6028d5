"""Dead letters: what failed for good is sent in again, discarded, or done by hand."""
