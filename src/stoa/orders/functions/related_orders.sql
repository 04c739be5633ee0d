-- Finds the stored orders on which the outcome of new ones (in_orders) depends: the order that has the same external id, and
-- the orders of the same contact within the time window that have the same basket or address. `index` counts the new orders.
-- An order that is found by several parts of its contact is returned several times. Contacts are locked in a fixed
-- order, so that of two concurrent orders of one contact the second sees the first.
CREATE FUNCTION related_orders(in_store_id bigint, in_orders json)
RETURNS TABLE (index integer, same_external_id boolean, id bigint, number bigint, customer_id bigint, email text, phone text,
               basket bytea, address bytea, total bigint, placed_at timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(t.key) FROM (
        SELECT DISTINCT hashtextextended(in_store_id || c.contact, 7) AS key
          FROM json_to_recordset(in_orders) AS t (customer_id bigint, email text, phone text)
               CROSS JOIN LATERAL (VALUES ('/customer/' || t.customer_id), ('/email/' || t.email), ('/phone/' || t.phone)) AS c (contact)
         WHERE c.contact IS NOT NULL ORDER BY 1) t;
    RETURN QUERY
    SELECT t.index, o.same_external_id, o.id, o.number, o.customer_id, o.email, o.phone, o.basket, o.address, o.total,
           o.placed_at
      FROM json_to_recordset(in_orders) AS t (
               index integer, external_id text, customer_id bigint, email text, phone text, basket bytea, address bytea,
               since timestamptz, until timestamptz)
           CROSS JOIN LATERAL (
               (SELECT true AS same_external_id, x.id, x.number, x.customer_id, x.email, x.phone, x.basket, x.address, x.total,
                       x.placed_at, x.status
                  FROM orders x WHERE x.store_id = in_store_id AND x.external_id = t.external_id LIMIT 1)
               UNION ALL
               (SELECT false, a.id, a.number, a.customer_id, a.email, a.phone, a.basket, a.address, a.total, a.placed_at, a.status
                  FROM orders a
                 WHERE a.store_id = in_store_id AND a.customer_id = t.customer_id AND a.placed_at BETWEEN t.since AND t.until
                 ORDER BY a.placed_at DESC LIMIT 200)
               UNION ALL
               (SELECT false, b.id, b.number, b.customer_id, b.email, b.phone, b.basket, b.address, b.total, b.placed_at, b.status
                  FROM orders b
                 WHERE b.store_id = in_store_id AND b.email = t.email AND b.placed_at BETWEEN t.since AND t.until
                 ORDER BY b.placed_at DESC LIMIT 200)
               UNION ALL
               (SELECT false, c.id, c.number, c.customer_id, c.email, c.phone, c.basket, c.address, c.total, c.placed_at, c.status
                  FROM orders c
                 WHERE c.store_id = in_store_id AND c.phone = t.phone AND c.placed_at BETWEEN t.since AND t.until
                 ORDER BY c.placed_at DESC LIMIT 200)) o
     WHERE o.same_external_id OR o.status <> 'cancelled' AND (o.basket = t.basket OR o.address = t.address);
END $$;
