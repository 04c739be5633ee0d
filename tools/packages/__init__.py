"""Checks what is published."""
