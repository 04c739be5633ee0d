-- The search terms by which typed metadata is compared, from the search terms of a row: a number such as 24 as "7/#/key=pb24" (its
-- sign, its integer digits counted from a to z, its digits), and each value of a list as "7/#/key=:value". Null if there are none.
-- Three indexes contain the results: a change of them needs a function with another name.
CREATE OR REPLACE FUNCTION comparable_terms(terms tsvector) RETURNS tsvector
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    IF terms::text !~ '/m/[^=]+=(-?[0-9]|.*,)' THEN
        RETURN NULL;
    END IF;
    RETURN (
        WITH entries AS MATERIALIZED (
            SELECT each.lexeme FROM unnest(tsvector_to_array(terms)) AS each (lexeme) WHERE strpos(each.lexeme, '/m/') > 0)
        SELECT array_to_tsvector(array_agg(DISTINCT found.term)) FROM (
            SELECT number.part[1] || '/#/' || number.part[2] || '='
                   || CASE WHEN number.part[3]::numeric < 0 THEN 'n' ELSE 'p' END
                   || chr(96 + length(digits.whole)) || digits.whole || digits.fraction AS term
              FROM entries
                   CROSS JOIN LATERAL regexp_match(entries.lexeme,
                       '^([0-9]+)/m/([^=]+)=(-?[0-9]{1,26}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?)$') AS number (part)
                   CROSS JOIN LATERAL (SELECT trim_scale(abs(number.part[3]::numeric))::text AS plain) AS absolute
                   CROSS JOIN LATERAL (SELECT split_part(absolute.plain, '.', 1) AS whole,
                                              split_part(absolute.plain, '.', 2) AS fraction) AS digits
             WHERE length(digits.whole) <= 26
            UNION ALL
            SELECT list.part[1] || '/#/' || list.part[2] || '=:' || value
              FROM entries
                   CROSS JOIN LATERAL regexp_match(entries.lexeme, '^([0-9]+)/m/([^=]+)=(.+,.+)$') AS list (part)
                   CROSS JOIN LATERAL unnest(string_to_array(list.part[3], ',')) AS value
             WHERE list.part[3] !~ '(^|,)[[:space:],]|[[:space:],](,|$)') AS found);
END $$;
