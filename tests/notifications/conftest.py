"""Fixtures for tests of notifications: an operator, a guest and two users."""

from tests.support.people import maria, operator, visitor, zeno

__all__ = ["maria", "operator", "visitor", "zeno"]
