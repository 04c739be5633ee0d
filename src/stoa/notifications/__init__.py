"""Notifications: what a person is told of, in the portal and by email."""
