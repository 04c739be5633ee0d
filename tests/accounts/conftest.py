"""Fixtures for account tests: an operator, a guest, two users, and a service without accounts."""

from tests.support.people import maria, operator, visitor, without_accounts, zeno

__all__ = ["maria", "operator", "visitor", "without_accounts", "zeno"]
