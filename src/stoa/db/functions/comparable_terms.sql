-- The search terms by which typed metadata is compared, from the search terms of a row: a number such as 24 as "7/#/key=pb24" (its
-- sign, its integer digits counted from a to z, its digits), and each value of a list as "7/#/key=:value". Null if there are none.
-- Three indexes contain the results: a change of them needs a function with another name. A loop takes a third of the time of one query.
CREATE OR REPLACE FUNCTION comparable_terms(terms tsvector) RETURNS tsvector
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    term  text;
    part  text[];
    plain text;
    whole text;
    found text[];
BEGIN
    IF terms::text !~ '/m/[^=]+=(-?[0-9]|.*,)' THEN
        RETURN NULL;
    END IF;
    FOREACH term IN ARRAY tsvector_to_array(terms) LOOP
        CONTINUE WHEN strpos(term, '/m/') = 0;
        part := regexp_match(term, '^([0-9]+)/m/([^=]+)=(-?[0-9]{1,26}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?)$');
        IF part IS NOT NULL THEN
            plain := trim_scale(abs(part[3]::numeric))::text;
            whole := split_part(plain, '.', 1);
            IF length(whole) <= 26 THEN
                found := found || (part[1] || '/#/' || part[2] || '=' || CASE WHEN part[3]::numeric < 0 THEN 'n' ELSE 'p' END
                                   || chr(96 + length(whole)) || whole || split_part(plain, '.', 2));
            END IF;
        ELSIF strpos(term, ',') > 0 THEN
            part := regexp_match(term, '^([0-9]+)/m/([^=]+)=(.+,.+)$');
            IF part[3] !~ '(^|,)[[:space:],]|[[:space:],](,|$)' THEN
                found := found || ARRAY(
                    SELECT part[1] || '/#/' || part[2] || '=:' || value FROM unnest(string_to_array(part[3], ',')) AS value);
            END IF;
        END IF;
    END LOOP;
    RETURN array_to_tsvector(found);
END $$;
