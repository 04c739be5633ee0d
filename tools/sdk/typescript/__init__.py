"""Generates the typed calls, types and error classes of the TypeScript SDK from the OpenAPI document."""
