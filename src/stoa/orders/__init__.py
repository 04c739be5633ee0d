"""Orders: placed, changed, shipped and returned, with their stock, timeline and duplicates."""
