-- RFC 3339 in UTC with microseconds. Immutable, because the time zone is a constant. In PL/pgSQL, because PostgreSQL does not
-- inline an immutable SQL function whose body uses stable functions, and starts an executor for each call of it instead.
CREATE OR REPLACE FUNCTION rfc3339(moment timestamptz) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
END $$;
