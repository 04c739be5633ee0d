"""Writes the generated half of the Python SDK from the declarations of the API."""
