CREATE OR REPLACE FUNCTION times_tail(created_at timestamptz, updated_at timestamptz, version integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$  -- for the reason that rfc3339 gives
BEGIN
    RETURN ',"created_at":"' || rfc3339(created_at) || '","updated_at":"' || rfc3339(updated_at) || '","version":' || version;
END $$;
