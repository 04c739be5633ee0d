"""Mutation tests: run by `make mutants`. The test suite only checks that each mutation still applies."""
