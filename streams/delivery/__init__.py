"""The delivery stage: outgoing webhooks, each delivered or visibly parked (G7)."""
