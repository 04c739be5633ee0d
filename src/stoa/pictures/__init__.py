"""The work on pictures outside of requests: fetching, removal, and `stoa media`."""
