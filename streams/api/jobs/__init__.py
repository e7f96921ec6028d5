"""Jobs: submit, show, list, cancel and move them."""
