-- In PL/pgSQL for the reason that rfc3339 gives. It repeats the format instead of calling rfc3339: a restore and a subscription
-- compute generated columns with an empty search_path, in which PL/pgSQL finds no function but PostgreSQL's own.
CREATE OR REPLACE FUNCTION times_tail(created_at timestamptz, updated_at timestamptz, version integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN ',"created_at":"' || to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        || '","updated_at":"' || to_char(updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        || '","version":' || version;
END $$;
