"""The dedup stage: of an event's deliveries, the first within the window goes on."""
