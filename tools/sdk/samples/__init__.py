"""Generates the sample request of each operation in each language."""
