"""Backups: all data of a service in one file, restored atomically, and a drill that rehearses the restore."""
