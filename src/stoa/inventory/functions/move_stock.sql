-- Moves stock, item by item in the order given; several items may name the same variant. An item names its variant by
-- i_variant or by i_sku. i_on_hand is the new level where i_absolute, else what to add; i_reserved is what to add;
-- i_expected, unless null, is what on_hand must be. Answers one row for each item, with the levels after it:
--   updated       moved: a ledger row was written, its id is movement_id and its document is doc
--   unchanged     there was nothing to move
--   unknown       there is no such variant; a deleted one is known only to what an order had reserved or sold before
--   stale         on_hand is not what was expected
--   insufficient  available would fall below 0, on a tracked variant that takes no backorders
-- Items that fail are left out; where in_atomic, one that fails leaves nothing written. To move what was never reserved
-- out of `reserved` is a mistake of the caller and breaks a constraint, as does a key that was used before.
CREATE FUNCTION move_stock(
    in_store_id bigint, in_atomic boolean, in_actor text, in_request_id text,
    i_variant bigint[], i_sku text[], i_kind text[], i_absolute boolean[], i_on_hand bigint[], i_reserved bigint[],
    i_expected bigint[], i_reason text[], i_reference text[], i_order bigint[], i_key text[], in_told boolean DEFAULT true
) RETURNS TABLE (outcome text, movement_id bigint, on_hand bigint, reserved bigint, doc text)
-- Arrays of every length want the same plans; planning them anew took most of the time.
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    named     bigint[];  -- the variant of each item; null where no variant has its SKU
    held      bigint[];  -- the variants that we hold by their products, and in the same places:
    skus      text[];
    live      boolean[];
    endless   boolean[]; -- whether available may fall below 0
    hands     bigint[];  -- on_hand as the items leave it
    holds     bigint[];  -- reserved as the items leave it
    old_hands bigint[];
    old_holds bigint[];
    outcomes  text[];    -- what became of each item, and in the same places:
    movements bigint[]  := array_fill(NULL::bigint, ARRAY[cardinality(i_kind)]);
    deltas    bigint[]  := movements;
    hands_at  bigint[];
    holds_at  bigint[];
    touched   bigint[];  -- the products of the variants that moved
    item      record;
    hand      bigint;
    hold      bigint;
    moment    timestamptz;
BEGIN
    named := ARRAY(
        SELECT coalesce(t.variant, (SELECT v.id FROM variants v
                                     WHERE v.store_id = in_store_id AND v.sku = t.sku AND v.deleted_at IS NULL))
          FROM unnest(i_variant, i_sku) WITH ORDINALITY AS t (variant, sku, n) ORDER BY t.n);

    -- Whoever changes a product, its variants or their stock holds the product's row; several in the order of ids. That
    -- holds its variants too, so they need no lock of their own.
    PERFORM 1
       FROM (SELECT DISTINCT v.product_id FROM unnest(named) AS t (id)
                    JOIN variants v ON v.store_id = in_store_id AND v.id = t.id) t
            JOIN products p ON p.store_id = in_store_id AND p.id = t.product_id
      ORDER BY p.id FOR NO KEY UPDATE OF p;
    SELECT array_agg(v.id), array_agg(v.sku), array_agg(v.deleted_at IS NULL),
           array_agg(v.allow_backorder OR NOT v.track_inventory), array_agg(v.on_hand), array_agg(v.reserved)
      INTO held, skus, live, endless, hands, holds
      FROM (SELECT DISTINCT t.id FROM unnest(named) AS t (id)) t
           JOIN variants v ON v.store_id = in_store_id AND v.id = t.id;
    old_hands := hands;
    old_holds := holds;
    moment := clock_timestamp();  -- after the wait for the locks, so that a row's times never run backwards

    FOR item IN
        SELECT t.*, h.place, h.live OR t.kind IN ('release', 'commit', 'restock') AS known,
               t.sku IS DISTINCT FROM h.sku OR NOT h.live AS renamed
          FROM unnest(named, i_sku, i_kind, i_absolute, i_on_hand, i_reserved, i_expected) WITH ORDINALITY
               AS t (variant, sku, kind, absolute, on_hand, reserved, expected, n)
               LEFT JOIN unnest(held, skus, live) WITH ORDINALITY AS h (id, sku, live, place) ON h.id = t.variant
         ORDER BY t.n
    LOOP
        IF item.sku IS NOT NULL AND item.place IS NOT NULL AND item.renamed THEN
            RAISE serialization_failure USING MESSAGE = 'a SKU changed hands while its variant was waited for';
        END IF;
        hand := item.on_hand + CASE WHEN item.absolute THEN 0 ELSE hands[item.place] END;
        hold := item.reserved + holds[item.place];
        outcomes[item.n] := CASE
            WHEN item.place IS NULL OR NOT item.known THEN 'unknown'
            WHEN item.expected <> hands[item.place] THEN 'stale'
            WHEN hand = hands[item.place] AND hold = holds[item.place] THEN 'unchanged'
            WHEN hand < hold AND NOT endless[item.place] THEN 'insufficient'
            ELSE 'updated' END;
        IF outcomes[item.n] = 'updated' THEN
            movements[item.n] := nextval('stock_movement_ids');
            deltas[item.n] := hand - hands[item.place];
            hands[item.place] := hand;
            holds[item.place] := hold;
        END IF;
        hands_at[item.n] := hands[item.place];
        holds_at[item.n] := holds[item.place];
    END LOOP;

    IF NOT 'updated' = ANY (outcomes) OR (in_atomic AND outcomes && ARRAY['unknown', 'stale', 'insufficient']) THEN
        RETURN QUERY SELECT t.outcome, NULL::bigint, t.on_hand, t.reserved, NULL
                       FROM unnest(outcomes, hands_at, holds_at) AS t (outcome, on_hand, reserved);
        RETURN;
    END IF;

    INSERT INTO stock_movements (store_id, id, variant_id, product_id, sku, kind, delta_on_hand, delta_reserved,
                                 on_hand_after, reserved_after, reason, reference, order_id, movement_key, actor,
                                 request_id, created_at)
    SELECT in_store_id, t.id, v.id, v.product_id, v.sku, t.kind, t.delta, t.reserved, t.on_hand_after,
           t.reserved_after, t.reason, t.reference, t.order_id, t.key, in_actor, in_request_id, moment
      FROM unnest(named, movements, i_kind, deltas, i_reserved, hands_at, holds_at, i_reason, i_reference, i_order, i_key)
           AS t (variant, id, kind, delta, reserved, on_hand_after, reserved_after, reason, reference, order_id, key)
           JOIN variants v ON v.store_id = in_store_id AND v.id = t.variant
     WHERE t.id IS NOT NULL;
    WITH moved AS (
        UPDATE variants v
           SET on_hand = t.on_hand, reserved = t.reserved, updated_at = moment, version = v.version + 1
          FROM unnest(held, hands, holds) AS t (id, on_hand, reserved)
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

    -- One event of a kind for each variant, however many items moved it.
    INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data,
                        request_id, created_at)
    SELECT in_store_id, new_event_id(), e.type, 'variant', v.id, v.version, in_actor,
           json_strip_nulls(json_build_object(
               'on_hand', CASE WHEN v.on_hand <> t.on_hand THEN json_build_array(t.on_hand, v.on_hand) END,
               'available', CASE WHEN s.now <> s.old THEN json_build_array(s.old, s.now) END))::text,
           variant_document(v.id, v.product_id, v.head, v.tail), in_request_id, moment
      FROM unnest(held, old_hands, old_holds) AS t (id, on_hand, reserved)
           JOIN variants v ON v.store_id = in_store_id AND v.id = t.id
           CROSS JOIN LATERAL (SELECT t.on_hand - t.reserved, v.on_hand - v.reserved) AS s (old, now)
           CROSS JOIN LATERAL (VALUES
               (1, 'product.inventory_changed', true),
               (2, 'product.low_stock', v.track_inventory AND s.old > v.low_stock_threshold AND s.now <= v.low_stock_threshold),
               (3, 'product.out_of_stock', v.track_inventory AND s.old > 0 AND s.now <= 0),
               (4, 'product.back_in_stock', v.track_inventory AND s.old <= 0 AND s.now > 0)) AS e (place, type, happened)
     WHERE e.happened AND v.deleted_at IS NULL AND (v.on_hand, v.reserved) <> (t.on_hand, t.reserved)
     ORDER BY v.id, e.place;

    IF NOT in_told THEN  -- nobody will read the entries of the ledger
        RETURN QUERY SELECT t.outcome, t.movement_id, t.on_hand, t.reserved, NULL
                       FROM unnest(outcomes, movements, hands_at, holds_at) AS t (outcome, movement_id, on_hand, reserved);
        RETURN;
    END IF;
    RETURN QUERY
    SELECT t.outcome, t.movement_id, t.on_hand, t.reserved,
           movement_document(m.id, m.variant_id, m.sku, m.kind, m.delta_on_hand, m.delta_reserved, m.on_hand_after,
                             m.reserved_after, m.reason, m.reference, m.order_id, m.actor, m.request_id, m.created_at)
      FROM unnest(outcomes, movements, hands_at, holds_at) WITH ORDINALITY AS t (outcome, movement_id, on_hand, reserved, n)
           LEFT JOIN stock_movements m ON m.store_id = in_store_id AND m.id = t.movement_id
     ORDER BY t.n;
END $$;
