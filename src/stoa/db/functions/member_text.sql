-- The text of a member in a stored part without braces; null if it is missing or null. Columns for filters are derived with it,
-- so that a row and its document agree also if the writer does not know the member.
CREATE OR REPLACE FUNCTION member_text(members text, name text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN ('{' || substr(members, 2) || '}')::json ->> name;
END $$;
