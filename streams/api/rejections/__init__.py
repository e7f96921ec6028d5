"""Rejections: deliveries that were refused, as counts."""
