"""Shards: plain PostgreSQL databases that hold some of the stores each. They are registered, kept up to date, and stores move."""
