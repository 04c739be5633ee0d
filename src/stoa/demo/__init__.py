"""The sample data of the demo stores, as JSON files, and the code that loads it."""
