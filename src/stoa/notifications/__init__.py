"""Notifications to people, in the portal and by email."""
