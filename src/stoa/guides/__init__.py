"""The developer guides: the Markdown pages of docs/guides, loaded and rendered as HTML."""
