"""The reference that people read: a page for every group, operation, guide and error code."""
