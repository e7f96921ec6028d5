"""Tidegate itself: its own processes, without `tidegate dev` above them."""
