-- What writing need not cost. Nobody asks for these by their text: to gather statistics of them would only take time.
ALTER TABLE customers ALTER COLUMN head SET STATISTICS 0, ALTER COLUMN shown SET STATISTICS 0,
    ALTER COLUMN tail SET STATISTICS 0;
ALTER TABLE order_comments ALTER COLUMN body SET STATISTICS 0, ALTER COLUMN changes SET STATISTICS 0;
ALTER TABLE pending_deliveries ALTER COLUMN attempts SET STATISTICS 0;
ALTER TABLE events ALTER COLUMN data SET STATISTICS 0, ALTER COLUMN changes SET STATISTICS 0;
ALTER TABLE deliveries ALTER COLUMN attempts SET STATISTICS 0;

-- A day of a table takes over what its table tells the planner, which LIKE leaves out.
CREATE OR REPLACE FUNCTION make_day(in_table text, in_day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    name     text := in_table || '_' || to_char(in_day, 'YYYYMMDD');
    untested text;
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name, in_table);
    EXECUTE format('ALTER TABLE %I ALTER COLUMN store_id SET (n_distinct = 1)', name);
    FOR untested IN
        SELECT a.attname FROM pg_attribute a WHERE a.attrelid = in_table::regclass AND a.attstattarget = 0 AND a.attnum > 0
    LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET STATISTICS 0', name, untested);
    END LOOP;
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', in_table, name, in_day, in_day + 1);
    RETURN true;
END $$;
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT i.inhrelid::regclass::text FROM pg_inherits i
                 WHERE i.inhparent IN ('events'::regclass, 'deliveries'::regclass)
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN store_id SET (n_distinct = 1)', name);
    END LOOP;
END $$;

-- What the lines of an order may name, by id or by SKU. One plan for lists of every length: made anew for each order, it
-- took longer than the looking.
CREATE FUNCTION offers(in_store_id bigint, in_variants bigint[], in_skus text[])
RETURNS TABLE (id bigint, product_id bigint, sku text, name text, price bigint, available bigint, endless boolean, head text)
LANGUAGE plpgsql STABLE ROWS 3 SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    SELECT v.id, v.product_id, v.sku, p.name, coalesce(v.price, p.price), v.on_hand - v.reserved,
           v.allow_backorder OR NOT v.track_inventory, v.head
      FROM (SELECT DISTINCT t.id FROM unnest(in_variants) AS t (id)) t
           JOIN variants v ON v.store_id = in_store_id AND v.id = t.id AND v.deleted_at IS NULL
           JOIN products p ON p.store_id = in_store_id AND p.id = v.product_id
     UNION ALL
    SELECT v.id, v.product_id, v.sku, p.name, coalesce(v.price, p.price), v.on_hand - v.reserved,
           v.allow_backorder OR NOT v.track_inventory, v.head
      FROM (SELECT DISTINCT t.sku FROM unnest(in_skus) AS t (sku)) t
           JOIN variants v ON v.store_id = in_store_id AND v.sku = t.sku AND v.deleted_at IS NULL
           JOIN products p ON p.store_id = in_store_id AND p.id = v.product_id;
END $$;
