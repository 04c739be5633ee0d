"""The demo stores' catalogues, kept as JSON beside this file."""
