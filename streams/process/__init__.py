"""What every process needs of its machine: clocks, daemon threads, and a way to end."""
