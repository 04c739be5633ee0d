-- Orders by the same contact around a moment, with the same basket or to the same address, the newest first. Of two that are placed at once by one contact, the
-- second waits here for the first, and so sees it.
CREATE FUNCTION orders_of_contact(
    in_store_id bigint, in_customer_id bigint, in_email text, in_phone text, in_basket bytea, in_address bytea,
    in_placed_at timestamptz, in_hours integer
) RETURNS TABLE (id bigint, customer_id bigint, email text, phone text, basket bytea, address bytea, total bigint,
                 placed_at timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    key   bigint;
    since timestamptz := in_placed_at - make_interval(hours => in_hours);
    until timestamptz := in_placed_at + make_interval(hours => in_hours);
BEGIN
    FOR key IN
        SELECT DISTINCT hashtextextended(in_store_id || t.contact, 7) FROM (VALUES
            ('/customer/' || in_customer_id), ('/email/' || in_email), ('/phone/' || in_phone)) AS t (contact)
         WHERE t.contact IS NOT NULL ORDER BY 1
    LOOP
        PERFORM pg_advisory_xact_lock(key);
    END LOOP;
    RETURN QUERY
    SELECT o.id, o.customer_id, o.email, o.phone, o.basket, o.address, o.total, o.placed_at
      FROM orders o
     WHERE o.store_id = in_store_id AND o.status <> 'cancelled' AND (o.basket = in_basket OR o.address = in_address)
       AND o.id IN (
           (SELECT a.id FROM orders a WHERE a.store_id = in_store_id AND a.customer_id = in_customer_id
               AND a.placed_at BETWEEN since AND until ORDER BY a.placed_at DESC LIMIT 200)
           UNION
           (SELECT b.id FROM orders b WHERE b.store_id = in_store_id AND b.email = in_email
               AND b.placed_at BETWEEN since AND until ORDER BY b.placed_at DESC LIMIT 200)
           UNION
           (SELECT c.id FROM orders c WHERE c.store_id = in_store_id AND c.phone = in_phone
               AND c.placed_at BETWEEN since AND until ORDER BY c.placed_at DESC LIMIT 200))
     ORDER BY o.placed_at DESC, o.id DESC;
END $$;
