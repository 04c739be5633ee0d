"""Accounts: registration, sessions, two-factor authentication, and the stores and apps that people own."""
