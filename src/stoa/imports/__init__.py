"""Bulk import: uploads of products and customers, applied row by row in the background, with a report on each row."""
