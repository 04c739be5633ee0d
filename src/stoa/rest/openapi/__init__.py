"""The OpenAPI 3.1 document, derived from the endpoint declarations."""
