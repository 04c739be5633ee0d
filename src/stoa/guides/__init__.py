"""The guides for developers of apps: the Markdown pages of docs/guides, found and turned into HTML."""
