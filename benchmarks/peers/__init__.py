"""Other open commerce platforms, measured beside Stoa on the same machine with the same products."""
