"""Events: each is written to the outbox in the transaction of the change that it describes."""
