"""Fuzzing of the whole API with schemathesis: run by `make fuzz`, not collected by the test suite."""
