"""Generates the typed calls and models of the Python and TypeScript SDKs from the OpenAPI document."""
