"""Stock: the level of every variant, and the ledger of its changes."""
