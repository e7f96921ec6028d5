"""One run of a handler: its context, its steps and effects, and how it ended."""
