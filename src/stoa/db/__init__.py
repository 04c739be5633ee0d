"""PostgreSQL for the rest of the house: statements as typed constants, a plain pool, migrations, an embedded server."""
