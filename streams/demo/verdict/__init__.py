"""What was seen from the outside, held against the guarantees."""
