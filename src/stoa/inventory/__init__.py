"""Stock: the levels of every variant, and the ledger of what moved them."""
