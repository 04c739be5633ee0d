-- Finds a slug for each product (in_slugs) that no other product of the store has: the one that its name suggests, or that one
-- with a number, such as linen-shirt-2. The numbers from 10 on are random, because a store can have thousands of products with
-- one name. Suggested slugs are locked in a fixed order until the end of the transaction, so that of two products that are
-- created at the same time the second sees the first. The slug with a number that a product gets is locked too, because the name
-- of another product may suggest it; if somebody else has that lock, the next number is tried, because waiting here could
-- deadlock. Numbers that are taken are not locked: the server has room for some thousands of locks.
CREATE FUNCTION free_slugs(in_store_id bigint, in_slugs json) RETURNS text[]
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    found     text[] := '{}';
    wanted    record;
    candidate text;
    locked    text;
    n         integer;
BEGIN
    PERFORM pg_advisory_xact_lock(t.key) FROM (
        SELECT DISTINCT hashtextextended(in_store_id || '/slug/' || t.slug, 7) AS key
          FROM json_to_recordset(in_slugs) AS t (slug text) ORDER BY 1) t;
    FOR wanted IN SELECT t.slug, t.product_id FROM json_to_recordset(in_slugs) AS t (slug text, product_id bigint) LOOP
        candidate := wanted.slug;
        locked := candidate;
        n := 1;
        LOOP
            IF candidate <> ALL (found) AND NOT EXISTS (
                SELECT FROM products p
                 WHERE p.store_id = in_store_id AND p.slug = candidate AND p.deleted_at IS NULL
                   AND p.id IS DISTINCT FROM wanted.product_id)
            THEN
                EXIT WHEN candidate = locked;
                IF pg_try_advisory_xact_lock(hashtextextended(in_store_id || '/slug/' || candidate, 7)) THEN
                    locked := candidate;  -- and it is looked up again: it may have been taken before the lock
                    CONTINUE;
                END IF;
            END IF;
            n := n + 1;
            candidate := rtrim(left(wanted.slug, 240), '-') || '-'
                         || CASE WHEN n < 10 THEN n ELSE 10 + floor(random() * 10 ^ (n - 8))::bigint END;
        END LOOP;
        found := found || candidate;
    END LOOP;
    RETURN found;
END $$;
