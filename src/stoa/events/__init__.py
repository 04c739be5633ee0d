"""What happened, told once: events are written to the outbox in the transaction in which they happen."""
