-- Formats minor units as a decimal string.
CREATE OR REPLACE FUNCTION amount_text(minor bigint, digits integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$  -- for the reason that rfc3339 gives
BEGIN
    RETURN CASE WHEN digits = 0 THEN minor::text
           ELSE CASE WHEN minor < 0 THEN '-' ELSE '' END || abs(minor) / (10 ^ digits)::bigint || '.'
                || lpad((abs(minor) % (10 ^ digits)::bigint)::text, digits, '0') END;
END $$;
