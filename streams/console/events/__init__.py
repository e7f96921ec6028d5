"""Events: what came in, and one picture from delivery to effect."""
