"""What goes around each run of a handler: one policy a module, and `stack` has their order."""
