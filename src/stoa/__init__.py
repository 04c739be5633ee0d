"""Stoa: one REST interface through which apps reach many online stores."""

DISTRIBUTION = "stoa-commerce"  # what pip installs; the package and the command are called stoa
