"""Operating a service: its logs, metrics and traces, its readiness, its periodic maintenance, and `stoa doctor`."""
