"""The first screen: what needs somebody, and the flow from delivery to effect."""
