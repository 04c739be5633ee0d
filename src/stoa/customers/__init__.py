"""The customers: profiles, addresses and metadata, and how a person is forgotten."""
