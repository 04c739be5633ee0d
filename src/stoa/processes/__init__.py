"""The processes of a service: the main process, its supervision of the workers, and a reload without failed requests."""
