-- Formats minor units as a decimal string.
CREATE OR REPLACE FUNCTION amount_text(minor bigint, digits integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    CASE WHEN digits = 0 THEN minor::text
    ELSE CASE WHEN minor < 0 THEN '-' ELSE '' END || abs(minor) / (10 ^ digits)::bigint || '.'
         || lpad((abs(minor) % (10 ^ digits)::bigint)::text, digits, '0') END;
