"""Declares and runs API endpoints; nothing here depends on a particular resource."""
