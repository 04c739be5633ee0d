"""How each app uses each store: counted in the workers, kept by day and hour, read by the portal."""
