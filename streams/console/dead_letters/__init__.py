"""Dead letters: what somebody must act on, one by one."""
