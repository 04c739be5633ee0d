-- A pooler does not pass on the settings of a connection, so the role has them.
ALTER ROLE stoa SET jit = off;
ALTER ROLE stoa SET statement_timeout = '30s';
ALTER ROLE stoa SET idle_in_transaction_session_timeout = '10s';
