"""Bulk import: files of products taken in at once, carried out row by row in the background, and reported on."""
