"""Vendure: its lock file, its scripts, and the requests by which it is measured."""
