"""Workers: how many jobs run at each, and which are drained."""
