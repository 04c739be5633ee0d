-- Stores products with their variants, stock movements and events. A product or variant without an id is new. The index of a
-- row is its position in its list, from 1; other rows refer to it by that index. Stock events follow from the movements of
-- variants that existed before; an initial movement, such as the first stock of a new variant, causes none. If products of
-- several requests are stored together, each has its own actor and request id.
--
-- A writer that has not read the rules of collections assumes that the store has none (`unruled`). If it has, nothing is stored and
-- the ids are null.
--
-- `id = ANY (...)` with each join limits it to the rows of this call. Without it, a plan that was cached while the table was
-- small would read the whole store.
CREATE FUNCTION save_products(
    in_store_id bigint, in_actor text, in_request_id text,
    in_products json, in_variants json, in_movements json, in_events json,
    OUT product_ids bigint[], OUT variant_ids bigint[]
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    actors           text[];  -- of each product
    requests         text[];  -- likewise
    unruled          boolean;
    of_old_release   boolean;
    with_collections boolean;
    new_products     bigint;
    deleted_products bigint;
    new_variants     bigint;
    deleted_variants bigint;
    handing_over     bigint;
    -- Taken while the rows are locked, so that a change that waited is not dated before the one it waited for.
    moment           timestamptz := clock_timestamp();
BEGIN
    SELECT array_agg(coalesce(t.id, nextval('product_ids'))), count(*) FILTER (WHERE t.id IS NULL),
           count(*) FILTER (WHERE t.deleted), array_agg(coalesce(t.actor, in_actor)),
           array_agg(coalesce(t.request_id, in_request_id)), bool_or(t.unruled), bool_or(coalesce(t.edition, 1) < 2)
      INTO product_ids, new_products, deleted_products, actors, requests, unruled, of_old_release
      FROM json_to_recordset(in_products) AS t (
               id bigint, deleted boolean, actor text, request_id text, unruled boolean, edition smallint);
    IF unruled OR of_old_release THEN
        PERFORM share_revision(in_store_id);
    END IF;
    with_collections := EXISTS (SELECT FROM collections c WHERE c.store_id = in_store_id);
    IF unruled AND with_collections AND EXISTS (
        SELECT FROM collections c WHERE c.store_id = in_store_id AND c.rules IS NOT NULL AND c.deleted_revision IS NULL)
    THEN
        product_ids := NULL;
        RETURN;
    END IF;
    SELECT coalesce(array_agg(coalesce(t.id, nextval('variant_ids'))), '{}'), count(*) FILTER (WHERE t.id IS NULL),
           count(*) FILTER (WHERE t.deleted), count(*) FILTER (WHERE t.hands_over)
      INTO variant_ids, new_variants, deleted_variants, handing_over
      FROM json_to_recordset(in_variants) AS t (id bigint, deleted boolean, hands_over boolean);

    -- Deletions come first, so that this call can reuse a SKU that it frees.
    IF deleted_variants > 0 THEN
        UPDATE variants v SET deleted_at = moment, updated_at = moment, version = v.version + 1
          FROM json_to_recordset(in_variants) AS t (id bigint, deleted boolean)
         WHERE v.store_id = in_store_id AND v.id = ANY (variant_ids) AND v.id = t.id AND t.deleted;
    END IF;
    IF new_products < cardinality(product_ids) THEN
        UPDATE products p
           SET external_id = t.external_id, slug = t.slug, name = t.name, status = t.status, price = t.price,
               on_hand = t.on_hand, reserved = t.reserved, in_stock = t.in_stock,
               head = CASE WHEN t.edition >= 2 THEN t.head ELSE kept_images(t.head, p.head) END,
               edition = coalesce(t.edition, 1), deleted_at = CASE WHEN t.deleted THEN moment END, updated_at = moment, version = p.version + 1
          FROM json_to_recordset(in_products) AS t (
                   id bigint, external_id text, slug text, name text, status text, price bigint, on_hand bigint,
                   reserved bigint, in_stock boolean, deleted boolean, head text, edition smallint)
         WHERE p.store_id = in_store_id AND p.id = ANY (product_ids) AND p.id = t.id;
    END IF;
    IF new_products > 0 THEN
        INSERT INTO products (store_id, id, external_id, slug, name, status, price, on_hand, reserved, in_stock, head,
                              edition, created_at, updated_at)
        SELECT in_store_id, product_ids[t.index], t.external_id, t.slug, t.name, t.status, t.price, t.on_hand, t.reserved,
               t.in_stock, t.head, coalesce(t.edition, 1), coalesce(t.created_at, moment), moment
          FROM json_to_recordset(in_products) AS t (
                   index integer, id bigint, external_id text, slug text, name text, status text, price bigint,
                   on_hand bigint, reserved bigint, in_stock boolean, head text, edition smallint,
                   created_at timestamptz)
         WHERE t.id IS NULL
         ORDER BY t.external_id COLLATE "C", t.index;
    END IF;
    INSERT INTO product_terms AS w (store_id, product_id, terms)
    SELECT in_store_id, product_ids[t.index], t.terms
      FROM json_to_recordset(in_products) AS t (index integer, terms tsvector)
        ON CONFLICT ON CONSTRAINT product_terms_pkey DO UPDATE SET terms = excluded.terms WHERE w.terms <> excluded.terms;
    -- As the document says, so that the two agree also if the writer does not know collections.
    IF with_collections THEN
        DELETE FROM collection_products m
         WHERE m.store_id = in_store_id AND m.product_id = ANY (product_ids)
           AND NOT EXISTS (
               SELECT FROM json_to_recordset(in_products) AS t (index integer, head text)
                      CROSS JOIN LATERAL json_to_recordset(coalesce(member_text(t.head, 'collections'), '[]')::json) AS e (handle text)
                WHERE product_ids[t.index] = m.product_id AND e.handle = m.handle);
        INSERT INTO collection_products AS m (store_id, product_id, handle, position)
        SELECT in_store_id, product_ids[t.index], e.handle, coalesce(e.position, 2147483647)
          FROM json_to_recordset(in_products) AS t (index integer, head text)
               CROSS JOIN LATERAL json_to_recordset(coalesce(member_text(t.head, 'collections'), '[]')::json) AS e (handle text, position integer)
            ON CONFLICT ON CONSTRAINT collection_products_pkey
            DO UPDATE SET position = excluded.position WHERE m.position <> excluded.position;
    END IF;
    -- A worker of the previous release applies no rules: they are applied again.
    IF of_old_release THEN
        UPDATE collection_revisions r SET revision = r.revision + 1 WHERE r.store_id = in_store_id;
    END IF;
    IF new_products <> deleted_products THEN
        PERFORM count_rows(in_store_id, 'products', new_products - deleted_products);
    END IF;

    -- PostgreSQL checks a unique index row by row, so a key is set free before another variant takes it over. Option values have
    -- a list as their key, never a number.
    IF handing_over > 0 THEN
        UPDATE variants v SET sku = NULL, external_id = NULL, options_key = v.id
          FROM json_to_recordset(in_variants) AS t (id bigint, hands_over boolean)
         WHERE v.store_id = in_store_id AND v.id = ANY (variant_ids) AND v.id = t.id AND t.hands_over;
    END IF;
    IF new_variants + deleted_variants < cardinality(variant_ids) THEN
        UPDATE variants v
           SET position = t.position, sku = t.sku, barcode = t.barcode, external_id = t.external_id,
               options_key = t.options_key, price = t.price, on_hand = t.on_hand, track_inventory = t.track_inventory,
               allow_backorder = t.allow_backorder, low_stock_threshold = t.low_stock_threshold, head = t.head,
               edition = coalesce(t.edition, 1), gtin = member_text(t.head, 'gtin'), updated_at = moment,
               version = v.version + 1
          FROM json_to_recordset(in_variants) AS t (
                   id bigint, position integer, sku text, barcode text, external_id text, options_key text, price bigint,
                   on_hand bigint, track_inventory boolean, allow_backorder boolean, low_stock_threshold integer,
                   deleted boolean, head text, edition smallint)
         WHERE v.store_id = in_store_id AND v.id = ANY (variant_ids) AND v.id = t.id AND NOT t.deleted;
    END IF;
    IF new_variants > 0 THEN
        INSERT INTO variants (store_id, id, product_id, position, sku, barcode, external_id, options_key, price, on_hand,
                              track_inventory, allow_backorder, low_stock_threshold, head, edition, gtin,
                              created_at, updated_at)
        SELECT in_store_id, variant_ids[t.index], product_ids[t.product_index], t.position, t.sku, t.barcode, t.external_id,
               t.options_key, t.price, t.on_hand, t.track_inventory, t.allow_backorder, t.low_stock_threshold, t.head,
               coalesce(t.edition, 1), member_text(t.head, 'gtin'), coalesce(t.created_at, moment), moment
          FROM json_to_recordset(in_variants) AS t (
                   index integer, product_index integer, id bigint, position integer, sku text, barcode text,
                   external_id text, options_key text, price bigint, on_hand bigint, track_inventory boolean,
                   allow_backorder boolean, low_stock_threshold integer, head text, edition smallint,
                   created_at timestamptz)
         WHERE t.id IS NULL
         ORDER BY t.sku COLLATE "C", t.external_id COLLATE "C", t.index;
    END IF;

    INSERT INTO stock_movements (store_id, variant_id, product_id, sku, kind, delta_on_hand, delta_reserved,
                                 on_hand_after, reserved_after, reason, reference, actor, request_id)
    SELECT in_store_id, v.id, v.product_id, v.sku, t.kind, t.delta, 0, v.on_hand, v.reserved, t.reason, t.reference,
           actors[t.product_index], requests[t.product_index]
      FROM json_to_recordset(in_movements) AS t (
               product_index integer, variant_index integer, kind text, delta bigint, reason text, reference text)
           JOIN variants v ON v.store_id = in_store_id AND v.id = ANY (variant_ids) AND v.id = variant_ids[t.variant_index]
     ORDER BY t.variant_index;

    -- A product's own event first, then the events of each variant: its own, then those of its stock.
    INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id,
                        parent_version)
    SELECT in_store_id, new_event_id(), e.type, e.resource_type, e.resource_id, e.version, actors[e.product_index],
           e.changes, e.data, requests[e.product_index], e.parent_version
      FROM (SELECT t.product_index, 0 AS variant_index, 0 AS n, t.type, t.changes, 'product' AS resource_type,
                   p.id AS resource_id, p.version,
                   -- The document of GET /products/{product_id}; a deleted product is a tombstone.
                   CASE WHEN p.deleted_at IS NULL THEN '{"id":' || p.id || product_head(p.head, p.edition) || ',"variants":[' || coalesce(
                       (SELECT string_agg(variant_document(m.id, m.product_id, variant_head(m.head, m.edition), m.tail), ',' ORDER BY m.position, m.id)
                          FROM variants m
                         WHERE m.store_id = in_store_id AND m.product_id = p.id AND m.deleted_at IS NULL), '') || ']' || p.tail
                   ELSE '{"id":' || p.id || ',"deleted_at":"' || rfc3339(p.deleted_at) || '","updated_at":"'
                       || rfc3339(p.updated_at) || '","version":' || p.version || '}'
                   END AS data, NULL::integer AS parent_version
              FROM json_to_recordset(in_events) AS t (
                       product_index integer, variant_index integer, type text, changes text)
                   JOIN products p ON p.store_id = in_store_id AND p.id = ANY (product_ids)
                                  AND p.id = product_ids[t.product_index]
             WHERE t.variant_index IS NULL
             UNION ALL
            SELECT t.product_index, t.variant_index, 0, t.type, t.changes, 'variant', v.id, v.version,
                   variant_document(v.id, v.product_id, variant_head(v.head, v.edition), v.tail), p.version
              FROM json_to_recordset(in_events) AS t (
                       product_index integer, variant_index integer, type text, changes text)
                   JOIN variants v ON v.store_id = in_store_id AND v.id = ANY (variant_ids)
                                  AND v.id = variant_ids[t.variant_index]
                   JOIN products p ON p.store_id = in_store_id AND p.id = ANY (product_ids)
                                  AND p.id = product_ids[t.product_index]
             UNION ALL
            SELECT t.product_index, t.variant_index, s.n, s.type,
                   '{"on_hand":[' || v.on_hand - t.delta || ',' || v.on_hand || '],"available":['
                   || v.on_hand - v.reserved - t.delta || ',' || v.on_hand - v.reserved || ']}',
                   'variant', v.id, v.version, variant_document(v.id, v.product_id, variant_head(v.head, v.edition), v.tail), p.version
              FROM json_to_recordset(in_movements) AS t (
                       product_index integer, variant_index integer, initial boolean, delta bigint)
                   JOIN variants v ON v.store_id = in_store_id AND v.id = ANY (variant_ids)
                                  AND v.id = variant_ids[t.variant_index]
                   JOIN products p ON p.store_id = in_store_id AND p.id = ANY (product_ids)
                                  AND p.id = product_ids[t.product_index]
                   CROSS JOIN LATERAL stock_event_types(
                       v.track_inventory, v.low_stock_threshold, v.on_hand - v.reserved - t.delta, v.on_hand - v.reserved) s
             WHERE NOT t.initial) e
     ORDER BY e.product_index, e.variant_index, e.n;
END $$;
