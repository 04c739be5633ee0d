"""Backups: everything that a service keeps in one file, put back whole or not at all, and a drill that proves it."""
