-- The variants that lines of orders name, by id or by SKU; `elsewhere` tells whether some of the stock is at another location
-- than the default. It also reads the products: on a cluster, a statement that joined them would run this function inside a shard. The
-- generic plan serves lists of every length; planning for each call took longer than the lookup.
CREATE FUNCTION order_offers(in_store_id bigint, in_variants bigint[], in_skus text[])
RETURNS TABLE (id bigint, product_id bigint, sku text, name text, price bigint, available bigint, unlimited boolean,
               elsewhere boolean, head text, product_head text)
LANGUAGE plpgsql STABLE ROWS 3 SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    SELECT v.id, v.product_id, v.sku, p.name, coalesce(v.price, p.price), v.on_hand - v.reserved,
           has_unlimited_stock(v.track_inventory, v.allow_backorder), v.other_on_hand > 0, v.head, p.head
      FROM (SELECT DISTINCT t.id FROM unnest(in_variants) AS t (id)) t
           JOIN variants v ON v.store_id = in_store_id AND v.id = t.id AND v.deleted_at IS NULL
           JOIN products p ON p.store_id = in_store_id AND p.id = v.product_id
     UNION ALL
    SELECT v.id, v.product_id, v.sku, p.name, coalesce(v.price, p.price), v.on_hand - v.reserved,
           has_unlimited_stock(v.track_inventory, v.allow_backorder), v.other_on_hand > 0, v.head, p.head
      FROM (SELECT DISTINCT t.sku FROM unnest(in_skus) AS t (sku)) t
           JOIN variants v ON v.store_id = in_store_id AND v.sku = t.sku AND v.deleted_at IS NULL
           JOIN products p ON p.store_id = in_store_id AND p.id = v.product_id;
END $$;
