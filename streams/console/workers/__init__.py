"""Workers: what runs where, and what no worker takes."""
