"""The reference that people read: the OpenAPI document as one page, and a page for every error code."""
