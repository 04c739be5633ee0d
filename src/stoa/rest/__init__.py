"""How an endpoint is declared and run; nothing here knows what a product is."""
