"""Documents that are the same for every table, as SQL."""

# What is left of a deleted row.
TOMBSTONE = """'{"id":' || id || ',"deleted_at":"' || rfc3339(deleted_at) || '","version":' || version || '}'"""
