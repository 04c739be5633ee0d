"""An app as a file, `stoa.app.toml`: read, written, compared with the registered app, and pushed."""
