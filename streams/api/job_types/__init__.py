"""Job types: what applications announce of them, and the check of inputs against it."""
