-- As role.sql, but without statement_timeout: it would end the copy of a large table when a store moves.
ALTER ROLE stoa SET jit = off;
ALTER ROLE stoa SET idle_in_transaction_session_timeout = '10s';
