"""The whole API under schemathesis: run by `make fuzz`, never collected by the suite."""
