"""How senders write things down: JSON, forms, times, and paths into them."""
