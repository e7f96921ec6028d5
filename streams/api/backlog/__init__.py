"""The backlog: how many jobs wait, and the refusal of new ones where that is too many."""
