-- RFC 3339 in UTC with microseconds. Immutable, because the time zone is a constant.
CREATE OR REPLACE FUNCTION rfc3339(moment timestamptz) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
