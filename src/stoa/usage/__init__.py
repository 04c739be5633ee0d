"""Usage metrics: requests of each app to each store, counted in the workers and shown in the portal."""
