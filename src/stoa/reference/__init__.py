"""The documentation pages: one for every group of operations, operation, guide and error code."""
