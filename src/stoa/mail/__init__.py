"""Email: an outbox in the database, and the courier that sends it."""
