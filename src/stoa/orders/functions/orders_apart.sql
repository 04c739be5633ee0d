-- Which of several new orders are not plain, by their places: the external id is taken, or the same contact ordered the
-- same or to the same address around that time. Of two that are placed at once by one contact, the second waits here for
-- the first, and so sees it.
CREATE FUNCTION orders_apart(
    in_store_id bigint, o_external_id text[], o_customer_id bigint[], o_email text[], o_phone text[], o_basket bytea[],
    o_address bytea[], o_since timestamptz[], o_until timestamptz[]
) RETURNS integer[] LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(t.key) FROM (
        SELECT DISTINCT hashtextextended(in_store_id || c.contact, 7) AS key
          FROM unnest(o_customer_id, o_email, o_phone) AS t (customer_id, email, phone)
               CROSS JOIN LATERAL (VALUES ('/customer/' || t.customer_id), ('/email/' || t.email), ('/phone/' || t.phone)) AS c (contact)
         WHERE c.contact IS NOT NULL ORDER BY 1) t;
    RETURN ARRAY(
        SELECT t.n::integer
          FROM unnest(o_external_id, o_customer_id, o_email, o_phone, o_basket, o_address, o_since, o_until)
               WITH ORDINALITY AS t (external_id, customer_id, email, phone, basket, address, since, until, n)
         WHERE (SELECT o.id FROM orders o WHERE o.store_id = in_store_id AND o.external_id = t.external_id) IS NOT NULL
            OR EXISTS (
                SELECT 1 FROM (
                    (SELECT a.basket, a.address, a.status FROM orders a WHERE a.store_id = in_store_id
                        AND a.customer_id = t.customer_id AND a.placed_at BETWEEN t.since AND t.until
                      ORDER BY a.placed_at DESC LIMIT 200)
                    UNION ALL
                    (SELECT b.basket, b.address, b.status FROM orders b WHERE b.store_id = in_store_id
                        AND b.email = t.email AND b.placed_at BETWEEN t.since AND t.until
                      ORDER BY b.placed_at DESC LIMIT 200)
                    UNION ALL
                    (SELECT c.basket, c.address, c.status FROM orders c WHERE c.store_id = in_store_id
                        AND c.phone = t.phone AND c.placed_at BETWEEN t.since AND t.until
                      ORDER BY c.placed_at DESC LIMIT 200)) other
                 WHERE other.status <> 'cancelled' AND (other.basket = t.basket OR other.address = t.address)));
END $$;
