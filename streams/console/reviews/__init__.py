"""Effects of unknown outcome: a person finds out what happened, and says so."""
