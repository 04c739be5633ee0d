"""Who may do what: stores, apps, installations, credentials and tokens."""
