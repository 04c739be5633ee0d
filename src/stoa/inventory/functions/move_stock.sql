-- Moves stock, item by item in the given order; several items may name the same variant, by its id or by its SKU. on_hand is
-- the new level if absolute, otherwise the difference; reserved is a difference; expected, if not null, is the on_hand that
-- the item requires. Returns one row for each item, with the levels after it:
--   updated       moved; movement_id is the id of its ledger row, and doc is the document of that row if in_documents
--   unchanged     nothing to move
--   unknown       no such variant; a deleted variant is known only to movements of what an order had reserved or sold
--   stale         on_hand differs from expected
--   insufficient  available would fall below 0 on a tracked variant without backorders
-- Failed items are skipped; if in_atomic, one failed item means that nothing is written. Releasing more than is reserved is a
-- caller's error and violates a constraint, as does a movement_key that was used before.
CREATE FUNCTION move_stock(
    in_store_id bigint, in_atomic boolean, in_actor text, in_request_id text, in_items json, in_documents boolean
) RETURNS TABLE (outcome text, movement_id bigint, on_hand bigint, reserved bigint, doc text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    -- The items, one array for each field:
    i_variant       bigint[];
    i_sku           text[];
    i_kind          text[];
    i_absolute      boolean[];
    i_on_hand       bigint[];
    i_reserved      bigint[];
    i_expected      bigint[];
    i_reason        text[];
    i_reference     text[];
    i_order         bigint[];
    i_key           text[];
    -- The result of each item:
    outcomes        text[];
    movements       bigint[];
    deltas          bigint[];    -- of on_hand
    after_on_hand   bigint[];    -- on_hand after the item
    after_reserved  bigint[];    -- reserved after the item
    -- The variants that the items name, each locked by its product:
    locked          bigint[];
    skus            text[];
    live            boolean[];
    unlimited       boolean[];   -- whether available may fall below 0
    levels_on_hand  bigint[];    -- on_hand, changed item by item
    levels_reserved bigint[];    -- reserved, likewise
    before_on_hand  bigint[];
    before_reserved bigint[];
    touched         bigint[];    -- the products of the variants that moved
    item            record;
    new_on_hand     bigint;
    new_reserved    bigint;
    moment          timestamptz;
BEGIN
    SELECT array_agg(coalesce(t.variant_id, (SELECT v.id FROM variants v
                                              WHERE v.store_id = in_store_id AND v.sku = t.sku AND v.deleted_at IS NULL))),
           array_agg(t.sku), array_agg(t.kind), array_agg(t.absolute), array_agg(t.on_hand), array_agg(t.reserved),
           array_agg(t.expected), array_agg(t.reason), array_agg(t.reference), array_agg(t.order_id), array_agg(t.movement_key),
           array_agg(NULL::bigint)
      INTO i_variant, i_sku, i_kind, i_absolute, i_on_hand, i_reserved, i_expected, i_reason, i_reference, i_order, i_key,
           movements
      FROM json_to_recordset(in_items) AS t (
               variant_id bigint, sku text, kind text, absolute boolean, on_hand bigint, reserved bigint, expected bigint,
               reason text, reference text, order_id bigint, movement_key text);
    deltas := movements;

    -- Every change of a product, its variants or their stock locks the product's row, several in the order of their ids. Its
    -- variants need no lock of their own.
    PERFORM 1
       FROM (SELECT DISTINCT v.product_id FROM unnest(i_variant) AS t (id)
                    JOIN variants v ON v.store_id = in_store_id AND v.id = t.id) t
            JOIN products p ON p.store_id = in_store_id AND p.id = t.product_id
      ORDER BY p.id FOR NO KEY UPDATE OF p;
    SELECT array_agg(v.id), array_agg(v.sku), array_agg(v.deleted_at IS NULL),
           array_agg(v.allow_backorder OR NOT v.track_inventory), array_agg(v.on_hand), array_agg(v.reserved)
      INTO locked, skus, live, unlimited, levels_on_hand, levels_reserved
      FROM (SELECT DISTINCT t.id FROM unnest(i_variant) AS t (id)) t
           JOIN variants v ON v.store_id = in_store_id AND v.id = t.id;
    before_on_hand := levels_on_hand;
    before_reserved := levels_reserved;
    moment := clock_timestamp();  -- after waiting for the locks, so that a row's times never decrease

    FOR item IN
        SELECT t.*, l.index, l.live OR t.kind IN ('release', 'commit', 'restock') AS known,
               t.sku IS DISTINCT FROM l.sku OR NOT l.live AS renamed
          FROM unnest(i_variant, i_sku, i_kind, i_absolute, i_on_hand, i_reserved, i_expected) WITH ORDINALITY
               AS t (variant, sku, kind, absolute, on_hand, reserved, expected, n)
               LEFT JOIN unnest(locked, skus, live) WITH ORDINALITY AS l (id, sku, live, index) ON l.id = t.variant
         ORDER BY t.n
    LOOP
        IF item.sku IS NOT NULL AND item.index IS NOT NULL AND item.renamed THEN
            RAISE serialization_failure USING MESSAGE = 'a SKU moved to another variant while its product was locked';
        END IF;
        new_on_hand := item.on_hand + CASE WHEN item.absolute THEN 0 ELSE levels_on_hand[item.index] END;
        new_reserved := item.reserved + levels_reserved[item.index];
        outcomes[item.n] := CASE
            WHEN item.index IS NULL OR NOT item.known THEN 'unknown'
            WHEN item.expected <> levels_on_hand[item.index] THEN 'stale'
            WHEN new_on_hand = levels_on_hand[item.index] AND new_reserved = levels_reserved[item.index] THEN 'unchanged'
            WHEN new_on_hand < new_reserved AND NOT unlimited[item.index] THEN 'insufficient'
            ELSE 'updated' END;
        IF outcomes[item.n] = 'updated' THEN
            movements[item.n] := nextval('stock_movement_ids');
            deltas[item.n] := new_on_hand - levels_on_hand[item.index];
            levels_on_hand[item.index] := new_on_hand;
            levels_reserved[item.index] := new_reserved;
        END IF;
        after_on_hand[item.n] := levels_on_hand[item.index];
        after_reserved[item.n] := levels_reserved[item.index];
    END LOOP;

    IF NOT 'updated' = ANY (outcomes) OR (in_atomic AND outcomes && ARRAY['unknown', 'stale', 'insufficient']) THEN
        RETURN QUERY SELECT t.outcome, NULL::bigint, t.on_hand, t.reserved, NULL
                       FROM unnest(outcomes, after_on_hand, after_reserved) AS t (outcome, on_hand, reserved);
        RETURN;
    END IF;

    INSERT INTO stock_movements (store_id, id, variant_id, product_id, sku, kind, delta_on_hand, delta_reserved,
                                 on_hand_after, reserved_after, reason, reference, order_id, movement_key, actor,
                                 request_id, created_at)
    SELECT in_store_id, t.id, v.id, v.product_id, v.sku, t.kind, t.delta, t.reserved, t.on_hand_after,
           t.reserved_after, t.reason, t.reference, t.order_id, t.key, in_actor, in_request_id, moment
      FROM unnest(i_variant, movements, i_kind, deltas, i_reserved, after_on_hand, after_reserved, i_reason, i_reference, i_order, i_key)
           AS t (variant, id, kind, delta, reserved, on_hand_after, reserved_after, reason, reference, order_id, key)
           JOIN variants v ON v.store_id = in_store_id AND v.id = t.variant
     WHERE t.id IS NOT NULL;
    WITH moved AS (
        UPDATE variants v
           SET on_hand = t.on_hand, reserved = t.reserved, updated_at = moment, version = v.version + 1
          FROM unnest(locked, levels_on_hand, levels_reserved) AS t (id, on_hand, reserved)
         WHERE v.store_id = in_store_id AND v.id = t.id AND (v.on_hand, v.reserved) <> (t.on_hand, t.reserved)
        RETURNING v.product_id, v.deleted_at)
    SELECT array_agg(moved.product_id) INTO touched FROM moved WHERE moved.deleted_at IS NULL;
    UPDATE products p
       SET on_hand = s.on_hand, reserved = s.reserved, in_stock = s.in_stock, updated_at = moment, version = p.version + 1
      FROM (SELECT v.product_id, sum(v.on_hand)::bigint AS on_hand, sum(v.reserved)::bigint AS reserved,
                   bool_or(v.allow_backorder OR NOT v.track_inventory OR v.on_hand > v.reserved) AS in_stock
              FROM variants v
             WHERE v.store_id = in_store_id AND v.product_id = ANY (touched) AND v.deleted_at IS NULL
             GROUP BY v.product_id) s
     WHERE p.store_id = in_store_id AND p.id = s.product_id;

    -- One event of each type for each variant, however many items moved it.
    INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data,
                        request_id, created_at, parent_version)
    SELECT in_store_id, new_event_id(), e.type, 'variant', v.id, v.version, in_actor,
           json_strip_nulls(json_build_object(
               'on_hand', CASE WHEN v.on_hand <> t.on_hand THEN json_build_array(t.on_hand, v.on_hand) END,
               'available', CASE WHEN s.now <> s.old THEN json_build_array(s.old, s.now) END))::text,
           variant_document(v.id, v.product_id, v.head, v.tail), in_request_id, moment, p.version
      FROM unnest(locked, before_on_hand, before_reserved) AS t (id, on_hand, reserved)
           JOIN variants v ON v.store_id = in_store_id AND v.id = t.id
           JOIN products p ON p.store_id = in_store_id AND p.id = v.product_id
           CROSS JOIN LATERAL (SELECT t.on_hand - t.reserved, v.on_hand - v.reserved) AS s (old, now)
           CROSS JOIN LATERAL stock_event_types(v.track_inventory, v.low_stock_threshold, s.old, s.now) AS e
     WHERE v.deleted_at IS NULL AND (v.on_hand, v.reserved) <> (t.on_hand, t.reserved)
     ORDER BY v.id, e.n;

    IF NOT in_documents THEN
        RETURN QUERY SELECT t.outcome, t.movement_id, t.on_hand, t.reserved, NULL
                       FROM unnest(outcomes, movements, after_on_hand, after_reserved) AS t (outcome, movement_id, on_hand, reserved);
        RETURN;
    END IF;
    RETURN QUERY
    SELECT t.outcome, t.movement_id, t.on_hand, t.reserved,
           movement_document(m.id, m.variant_id, m.sku, m.kind, m.delta_on_hand, m.delta_reserved, m.on_hand_after,
                             m.reserved_after, m.reason, m.reference, m.order_id, m.actor, m.request_id, m.created_at)
      FROM unnest(outcomes, movements, after_on_hand, after_reserved) WITH ORDINALITY AS t (outcome, movement_id, on_hand, reserved, n)
           LEFT JOIN stock_movements m ON m.store_id = in_store_id AND m.id = t.movement_id
     ORDER BY t.n;
END $$;
