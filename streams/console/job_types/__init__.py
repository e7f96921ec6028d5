"""Job types that workers have announced."""
