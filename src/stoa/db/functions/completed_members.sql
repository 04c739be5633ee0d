-- A stored part without braces, such as a head, with the members of `defaults` that it lacks. Missing members are appended; only
-- defaults of nested members need the document to be taken apart.
CREATE OR REPLACE FUNCTION completed_members(members text, defaults json) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    document json := ('{' || substr(members, 2) || '}')::json;
    name     text;
    whole    text;
BEGIN
    FOR name IN SELECT json_object_keys(defaults) LOOP
        -- An empty list has nothing to complete; text cannot contain this, because its quotes are escaped.
        CONTINUE WHEN name LIKE '%.' AND position(to_json(rtrim(name, '.')) || ':[]' IN members) > 0;
        IF name LIKE '%.' THEN
            whole := completed(document, defaults)::text;
            RETURN ',' || substr(whole, 2, length(whole) - 2);
        ELSIF document -> name IS NULL THEN
            members := members || ',' || to_json(name) || ':' || (defaults -> name)::text;
        END IF;
    END LOOP;
    RETURN members;
END $$;
