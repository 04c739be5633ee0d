"""Pictures of the pages: those of the README, and every page for people who review them."""
