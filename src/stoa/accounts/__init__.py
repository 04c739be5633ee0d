"""People: their accounts, sessions and second factor, and what they own."""
