"""Benchmarks of Stoa, compared with the limit of its database and with a baseline on a common stack."""
