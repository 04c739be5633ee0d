"""The HTTP client of deliveries: connections, response reading, the address guard and signatures."""
