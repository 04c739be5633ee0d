"""Stoa: one REST interface through which apps reach many online stores."""
