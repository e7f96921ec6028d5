"""Causes: dead letters that died of the same thing, as one."""
