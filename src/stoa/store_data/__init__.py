"""The data of a store across all slices: exporting it, erasing it, and erasing one customer in it."""
