"""The catalogue: products and their variants."""
