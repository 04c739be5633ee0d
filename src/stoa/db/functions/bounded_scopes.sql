-- The scopes of an installation that a subscription may use: those that its token could read, if it was narrowed to some. A
-- write scope includes the read scope of the same resource.
CREATE OR REPLACE FUNCTION bounded_scopes(granted text[], readable text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    CASE WHEN granted IS NULL OR readable IS NULL THEN granted
    ELSE ARRAY(SELECT r.scope FROM unnest(readable) AS r (scope)
                WHERE r.scope = ANY (granted) OR replace(r.scope, ':read', ':write') = ANY (granted)) END;
