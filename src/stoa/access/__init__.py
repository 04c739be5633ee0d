"""Access control: stores, apps, installations, credentials and tokens."""
