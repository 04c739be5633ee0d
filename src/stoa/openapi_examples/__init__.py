"""Examples for the OpenAPI document, derived from the example requests by the rules of each slice."""
