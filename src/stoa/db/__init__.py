"""Access to PostgreSQL: typed statements, a connection pool, migrations and an embedded server."""
