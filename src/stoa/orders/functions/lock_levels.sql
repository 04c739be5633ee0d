-- Locks customers and then products, several in the order of their ids, as place_orders does, and returns the available units
-- of these variants at each location that holds any, in the order in which orders reserve them. The default location comes
-- with every variant. A plain read locks nothing: both lists of rows to lock are empty.
CREATE FUNCTION lock_levels(in_store_id bigint, in_customers bigint[], in_products bigint[], in_variants bigint[])
RETURNS TABLE (variant_id bigint, location text, available bigint, unlimited boolean)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF in_customers <> '{}' THEN
        PERFORM 1 FROM customers c WHERE c.store_id = in_store_id AND c.id = ANY (in_customers) ORDER BY c.id FOR NO KEY UPDATE;
    END IF;
    IF in_products <> '{}' THEN
        PERFORM 1 FROM products p WHERE p.store_id = in_store_id AND p.id = ANY (in_products) ORDER BY p.id FOR NO KEY UPDATE;
    END IF;
    RETURN QUERY
    SELECT t.variant_id, t.location, t.available, t.unlimited
      FROM (SELECT v.id AS variant_id, 'default' AS location,
                   v.on_hand - v.other_on_hand - (v.reserved - v.other_reserved) AS available,
                   has_unlimited_stock(v.track_inventory, v.allow_backorder) AS unlimited
              FROM variants v WHERE v.store_id = in_store_id AND v.id = ANY (in_variants) AND v.deleted_at IS NULL
             UNION ALL
            SELECT s.variant_id, s.location, s.on_hand - s.reserved, false
              FROM stock_levels s
             WHERE s.store_id = in_store_id AND s.variant_id = ANY (in_variants) AND s.on_hand > s.reserved) t
           LEFT JOIN locations l ON l.store_id = in_store_id AND l.code = t.location
     ORDER BY coalesce(l.priority, 0), t.location;
END $$;
