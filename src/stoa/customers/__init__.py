"""Customers: profiles, addresses, metadata and erasure."""
