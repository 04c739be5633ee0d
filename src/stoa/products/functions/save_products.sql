-- Stores products (p_), variants (v_), stock movements (m_) and events (e_) that were decided elsewhere. An id of null
-- is a new row; v_product, m_variant, e_product and e_variant count rows of this same call, from 1.
CREATE FUNCTION save_products(
    in_store_id bigint, in_actor text, in_request_id text,
    p_id bigint[], p_external_id text[], p_slug text[], p_name text[], p_status text[], p_price bigint[],
    p_on_hand bigint[], p_reserved bigint[], p_in_stock boolean[], p_deleted boolean[], p_head text[], p_terms text[],
    v_id bigint[], v_product integer[], v_position integer[], v_sku text[], v_barcode text[], v_external_id text[],
    v_options_key text[], v_price bigint[], v_on_hand bigint[], v_track_inventory boolean[],
    v_allow_backorder boolean[], v_low_stock_threshold integer[], v_deleted boolean[], v_head text[],
    m_variant integer[], m_kind text[], m_delta bigint[], m_reason text[], m_reference text[],
    e_id text[], e_type text[], e_product integer[], e_variant integer[], e_changes text[],
    OUT product_ids bigint[], OUT variant_ids bigint[]
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    grown  bigint;
    -- Taken when the rows are locked, so that a change that waited is not dated before the one it waited for.
    moment timestamptz := clock_timestamp();
BEGIN
    product_ids := ARRAY(SELECT coalesce(t.id, nextval('product_ids')) FROM unnest(p_id) WITH ORDINALITY AS t (id, n) ORDER BY t.n);
    variant_ids := ARRAY(SELECT coalesce(t.id, nextval('variant_ids')) FROM unnest(v_id) WITH ORDINALITY AS t (id, n) ORDER BY t.n);

    -- What goes first, so that a SKU freed in this call can be taken in this call.
    UPDATE variants v SET deleted_at = moment, updated_at = moment, version = v.version + 1
      FROM unnest(v_id, v_deleted) AS t (id, deleted)
     WHERE v.store_id = in_store_id AND v.id = t.id AND t.deleted;
    UPDATE products p
       SET external_id = t.external_id, slug = t.slug, name = t.name, status = t.status, price = t.price,
           on_hand = t.on_hand, reserved = t.reserved, in_stock = t.in_stock, head = t.head,
           deleted_at = CASE WHEN t.deleted THEN moment END, updated_at = moment, version = p.version + 1
      FROM unnest(p_id, p_external_id, p_slug, p_name, p_status, p_price, p_on_hand, p_reserved, p_in_stock, p_deleted,
                  p_head)
           AS t (id, external_id, slug, name, status, price, on_hand, reserved, in_stock, deleted, head)
     WHERE p.store_id = in_store_id AND p.id = t.id;
    INSERT INTO products (store_id, id, external_id, slug, name, status, price, on_hand, reserved, in_stock, head,
                          created_at, updated_at)
    SELECT in_store_id, product_ids[t.n], t.external_id, t.slug, t.name, t.status, t.price, t.on_hand, t.reserved,
           t.in_stock, t.head, moment, moment
      FROM unnest(p_id, p_external_id, p_slug, p_name, p_status, p_price, p_on_hand, p_reserved, p_in_stock, p_head)
           WITH ORDINALITY AS t (id, external_id, slug, name, status, price, on_hand, reserved, in_stock, head, n)
     WHERE t.id IS NULL
     ORDER BY t.external_id COLLATE "C", t.n;
    INSERT INTO product_terms AS w (store_id, product_id, terms)
    SELECT in_store_id, t.id, t.terms::tsvector FROM unnest(product_ids, p_terms) AS t (id, terms)
        ON CONFLICT ON CONSTRAINT product_terms_pkey DO UPDATE SET terms = excluded.terms WHERE w.terms <> excluded.terms;
    SELECT count(*) FILTER (WHERE t.id IS NULL) - count(*) FILTER (WHERE t.deleted) INTO grown
      FROM unnest(p_id, p_deleted) AS t (id, deleted);
    IF grown <> 0 THEN
        INSERT INTO row_counts (store_id, resource, delta) VALUES (in_store_id, 'products', grown);
    END IF;

    UPDATE variants v
       SET position = t.position, sku = t.sku, barcode = t.barcode, external_id = t.external_id,
           options_key = t.options_key, price = t.price, on_hand = t.on_hand, track_inventory = t.track_inventory,
           allow_backorder = t.allow_backorder, low_stock_threshold = t.low_stock_threshold, head = t.head,
           updated_at = moment, version = v.version + 1
      FROM unnest(v_id, v_position, v_sku, v_barcode, v_external_id, v_options_key, v_price, v_on_hand,
                  v_track_inventory, v_allow_backorder, v_low_stock_threshold, v_deleted, v_head)
           AS t (id, position, sku, barcode, external_id, options_key, price, on_hand,
                 track_inventory, allow_backorder, low_stock_threshold, deleted, head)
     WHERE v.store_id = in_store_id AND v.id = t.id AND NOT t.deleted;
    INSERT INTO variants (store_id, id, product_id, position, sku, barcode, external_id, options_key, price, on_hand,
                          track_inventory, allow_backorder, low_stock_threshold, head, created_at, updated_at)
    SELECT in_store_id, variant_ids[t.n], product_ids[t.product], t.position, t.sku, t.barcode, t.external_id,
           t.options_key, t.price, t.on_hand, t.track_inventory, t.allow_backorder, t.low_stock_threshold, t.head, moment, moment
      FROM unnest(v_id, v_product, v_position, v_sku, v_barcode, v_external_id, v_options_key, v_price, v_on_hand,
                  v_track_inventory, v_allow_backorder, v_low_stock_threshold, v_head)
           WITH ORDINALITY AS t (id, product, position, sku, barcode, external_id, options_key, price, on_hand,
                 track_inventory, allow_backorder, low_stock_threshold, head, n)
     WHERE t.id IS NULL
     ORDER BY t.sku COLLATE "C", t.external_id COLLATE "C", t.n;

    IF m_variant <> '{}' THEN
        INSERT INTO stock_movements (store_id, variant_id, product_id, sku, kind, delta_on_hand, delta_reserved,
                                     on_hand_after, reserved_after, reason, reference, actor, request_id)
        SELECT in_store_id, v.id, v.product_id, v.sku, t.kind, t.delta, 0, v.on_hand, v.reserved, t.reason, t.reference,
               in_actor, in_request_id
          FROM unnest(m_variant, m_kind, m_delta, m_reason, m_reference) WITH ORDINALITY
               AS t (variant, kind, delta, reason, reference, n)
               JOIN variants v ON v.store_id = in_store_id AND v.id = variant_ids[t.variant]
         ORDER BY t.n;
    END IF;
    IF e_id <> '{}' THEN
        INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
        SELECT in_store_id, t.id, t.type, CASE WHEN v.id IS NULL THEN 'product' ELSE 'variant' END,
               coalesce(v.id, p.id), coalesce(v.version, p.version), in_actor, t.changes,
               CASE WHEN v.id IS NOT NULL THEN variant_document(v.id, v.product_id, v.head, v.tail)
                    -- A product as GET answers it, its variants included; what is deleted is a tombstone.
                    WHEN p.deleted_at IS NULL THEN '{"id":' || p.id || p.head || ',"variants":[' || coalesce(
                        (SELECT string_agg(variant_document(m.id, m.product_id, m.head, m.tail), ',' ORDER BY m.position, m.id)
                           FROM variants m
                          WHERE m.store_id = in_store_id AND m.product_id = p.id AND m.deleted_at IS NULL), '') || ']' || p.tail
                    ELSE '{"id":' || p.id || ',"deleted_at":"' || rfc3339(p.deleted_at) || '","version":' || p.version || '}' END,
               in_request_id
          FROM unnest(e_id, e_type, e_product, e_variant, e_changes) WITH ORDINALITY
               AS t (id, type, product, variant, changes, n)
               JOIN products p ON p.store_id = in_store_id AND p.id = product_ids[t.product]
               LEFT JOIN variants v ON v.store_id = in_store_id AND v.id = variant_ids[t.variant]
         ORDER BY t.n;
    END IF;
END $$;
