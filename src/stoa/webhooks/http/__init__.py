"""The HTTP client of deliveries: messages and their signatures, connections, name lookups and the address guard."""
