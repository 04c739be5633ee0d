"""The performance figures of Stoa, each beside its limit and beside what a team would otherwise write."""
