"""The catalog: products and their variants."""
