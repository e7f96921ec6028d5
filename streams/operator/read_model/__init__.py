"""The read model: topics folded into tables, and the questions asked of them."""
