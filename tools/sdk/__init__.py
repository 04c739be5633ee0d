"""Generates the typed calls and models of the Python SDK from the OpenAPI document."""
