-- Moves stock, item by item in the given order; several items may name the same variant, by its id or by its SKU. location is
-- where the stock is, the default location if it is null. on_hand is the new level there if absolute, otherwise the difference;
-- reserved is a difference; expected, if not null, is the on_hand that the item requires. With to_location, on_hand units move
-- from one location to the other. Returns one row for each item, with the levels at its location after it:
--   updated           moved; movement_id is the id of its ledger row, and doc is the document of that row if in_documents;
--                     without them, an order had nothing to move, because the variant is not tracked
--   unchanged         nothing to move
--   unknown           no such variant; a deleted variant is known only to movements of what an order had reserved or sold
--   unknown_location  location is not an active location of the store
--   unknown_target    to_location is not an active location of the store
--   stale             on_hand differs from expected
--   later             an earlier request of this statement changes the same product
--   insufficient      available would fall below 0; at the default location only on a tracked variant without backorders
-- Orders do not change on_hand of a variant that is not tracked: they only end what they reserved while it was tracked.
-- Failed items are skipped; if in_atomic, one failed item means that nothing is written. Units that come back to a location
-- that is no longer active go to the default location. Releasing more than is reserved is a caller's error and violates a
-- constraint, as does a movement_key that was used before. Items of several requests have the number, actor and request id of
-- theirs. Of two requests that name one product, the later one is left out, so that each has its versions and events.
CREATE FUNCTION move_stock(
    in_store_id bigint, in_atomic boolean, in_actor text, in_request_id text, in_items json, in_documents boolean
) RETURNS TABLE (outcome text, movement_id bigint, on_hand bigint, reserved bigint, doc text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    -- The items, one array for each field:
    i_variant       bigint[];
    i_sku           text[];
    i_kind          text[];
    i_location      text[];
    i_target        text[];
    i_absolute      boolean[];
    i_on_hand       bigint[];
    i_reserved      bigint[];
    i_expected      bigint[];
    i_reason        text[];
    i_reference     text[];
    i_order         bigint[];
    i_key           text[];
    i_call          integer[];
    i_actor         text[];
    i_request       text[];
    elsewhere       boolean;     -- whether an item names a location other than the default
    silent          boolean;     -- whether the items cause no events
    -- The result of each item:
    outcomes        text[];
    movements       bigint[];
    arrivals        bigint[];    -- the ledger rows of the units that a transfer adds to its target
    deltas          bigint[];    -- of on_hand
    after_on_hand   bigint[];    -- on_hand at the item's location after it
    after_reserved  bigint[];    -- reserved, likewise
    total_on_hand   bigint[];    -- on_hand of the variant after the item
    total_reserved  bigint[];    -- reserved, likewise
    -- The variants that the items name, each locked by its product:
    locked          bigint[];
    parents         bigint[];    -- the product of each
    later           integer[];   -- requests that name a product of an earlier one
    skus            text[];
    live            boolean[];
    tracked         boolean[];
    unlimited       boolean[];   -- whether available may fall below 0
    all_on_hand     bigint[];    -- on_hand at all locations, changed item by item
    all_reserved    bigint[];    -- reserved, likewise
    others_on_hand  bigint[];    -- on_hand at locations other than the default, likewise
    others_reserved bigint[];    -- reserved, likewise
    before_on_hand  bigint[];
    before_reserved bigint[];
    before_others   bigint[];    -- on_hand at locations other than the default
    relocated       boolean[];   -- whether a level at another location changed
    -- The levels at locations other than the default that the items name:
    active          text[];      -- of these locations
    level_variant   bigint[];
    level_location  text[];
    level_on_hand   bigint[];    -- changed item by item
    level_reserved  bigint[];    -- likewise
    level_before    bigint[];    -- on_hand
    level_moved     boolean[];
    i_level         integer[];   -- the index of each item's location among these levels, null for the default
    i_target_level  integer[];   -- the index of its target, likewise
    relocations     json[];      -- of each variant: on_hand before and after, at the locations where it changed
    touched         bigint[];    -- the products of the variants that moved
    at              integer;     -- the index of the item's variant
    level_at        integer;     -- the index of the level at the item's location, null for the default
    target_at       integer;     -- the index of the level at its target, likewise
    old_on_hand     bigint;
    old_reserved    bigint;
    new_on_hand     bigint;
    new_reserved    bigint;
    moment          timestamptz;
BEGIN
    SELECT array_agg(coalesce(t.variant_id, (SELECT v.id FROM variants v
                                              WHERE v.store_id = in_store_id AND v.sku = t.sku AND v.deleted_at IS NULL))),
           array_agg(t.sku), array_agg(t.kind), array_agg(coalesce(t.location, 'default')), array_agg(t.to_location),
           array_agg(t.absolute), array_agg(t.on_hand), array_agg(t.reserved),
           array_agg(t.expected), array_agg(t.reason), array_agg(t.reference), array_agg(t.order_id), array_agg(t.movement_key),
           array_agg(t.call), array_agg(coalesce(t.actor, in_actor)), array_agg(coalesce(t.request_id, in_request_id)),
           array_agg(NULL::bigint), bool_or(t.location <> 'default' OR t.to_location IS NOT NULL),
           coalesce(bool_or(t.silent), false)
      INTO i_variant, i_sku, i_kind, i_location, i_target, i_absolute, i_on_hand, i_reserved, i_expected, i_reason,
           i_reference, i_order, i_key, i_call, i_actor, i_request, movements, elsewhere, silent
      FROM json_to_recordset(in_items) AS t (
               variant_id bigint, sku text, kind text, location text, to_location text, absolute boolean, on_hand bigint,
               reserved bigint, expected bigint, reason text, reference text, order_id bigint, movement_key text, call integer,
               actor text, request_id text, silent boolean);
    deltas := movements;

    -- Every change of a product, its variants or their stock locks the product's row, several in the order of their ids. Its
    -- variants and their levels need no lock of their own.
    PERFORM 1
       FROM (SELECT DISTINCT v.product_id FROM unnest(i_variant) AS t (id)
                    JOIN variants v ON v.store_id = in_store_id AND v.id = t.id) t
            JOIN products p ON p.store_id = in_store_id AND p.id = t.product_id
      ORDER BY p.id FOR NO KEY UPDATE OF p;
    SELECT array_agg(v.id), array_agg(v.product_id), array_agg(v.sku), array_agg(v.deleted_at IS NULL), array_agg(v.track_inventory),
           array_agg(has_unlimited_stock(v.track_inventory, v.allow_backorder)), array_agg(v.on_hand), array_agg(v.reserved),
           array_agg(v.other_on_hand), array_agg(v.other_reserved)
      INTO locked, parents, skus, live, tracked, unlimited, all_on_hand, all_reserved, others_on_hand, others_reserved
      FROM (SELECT DISTINCT t.id FROM unnest(i_variant) AS t (id)) t
           JOIN variants v ON v.store_id = in_store_id AND v.id = t.id;
    IF i_call[cardinality(i_call)] > 0 THEN
        later := ARRAY(SELECT DISTINCT s.call
                         FROM (SELECT t.call, min(t.call) OVER (PARTITION BY k.product) AS first
                                 FROM unnest(i_variant, i_call) AS t (variant, call)
                                      JOIN unnest(locked, parents) AS k (variant, product) ON k.variant = t.variant) s
                        WHERE s.call > s.first);
    END IF;
    before_on_hand := all_on_hand;
    before_reserved := all_reserved;
    before_others := others_on_hand;
    IF elsewhere THEN
        -- The lock keeps a location from being deactivated before its new stock is committed.
        active := ARRAY(SELECT l.code FROM locations l
                         WHERE l.store_id = in_store_id AND l.code = ANY (i_location || i_target) AND l.active
                         ORDER BY l.code FOR KEY SHARE);
        i_location := ARRAY(SELECT CASE WHEN t.kind = 'restock' AND NOT t.location = ANY (active) THEN 'default' ELSE t.location END
                              FROM unnest(i_location, i_kind) WITH ORDINALITY AS t (location, kind, n) ORDER BY t.n);
        SELECT array_agg(t.variant), array_agg(t.location), array_agg(coalesce(s.on_hand, 0)), array_agg(coalesce(s.reserved, 0))
          INTO level_variant, level_location, level_on_hand, level_reserved
          FROM (SELECT a.variant, a.location FROM unnest(i_variant, i_location) AS a (variant, location)
                 UNION SELECT b.variant, b.location FROM unnest(i_variant, i_target) AS b (variant, location)) t
               JOIN unnest(locked) AS k (id) ON k.id = t.variant
               LEFT JOIN stock_levels s ON s.store_id = in_store_id AND s.variant_id = t.variant AND s.location = t.location
         WHERE t.location <> 'default';
        level_before := level_on_hand;
        -- An array that grows by assignment would begin with the first index that is assigned.
        level_moved := array_fill(false, ARRAY[coalesce(cardinality(level_variant), 0)]);
        relocated := array_fill(false, ARRAY[coalesce(cardinality(locked), 0)]);
        arrivals := movements;
        SELECT array_agg(p.index ORDER BY t.n), array_agg(q.index ORDER BY t.n)
          INTO i_level, i_target_level
          FROM unnest(i_variant, i_location, i_target) WITH ORDINALITY AS t (variant, location, target, n)
               LEFT JOIN unnest(level_variant, level_location) WITH ORDINALITY AS p (variant, location, index)
                      ON p.variant = t.variant AND p.location = t.location
               LEFT JOIN unnest(level_variant, level_location) WITH ORDINALITY AS q (variant, location, index)
                      ON q.variant = t.variant AND q.location = t.target;
    END IF;
    moment := clock_timestamp();  -- after waiting for the locks, so that a row's times never decrease

    -- By index rather than by a query: of a few items, a query would cost more than the work.
    FOR n IN 1 .. coalesce(cardinality(i_variant), 0) LOOP
        IF i_call[n] = ANY (later) THEN
            outcomes[n] := 'later';
            CONTINUE;
        END IF;
        at := array_position(locked, i_variant[n]);
        level_at := i_level[n];
        target_at := i_target_level[n];
        IF i_sku[n] IS NOT NULL AND at IS NOT NULL AND (i_sku[n] IS DISTINCT FROM skus[at] OR NOT live[at]) THEN
            RAISE serialization_failure USING MESSAGE = 'a SKU moved to another variant while its product was locked';
        END IF;
        -- The default location holds what the others do not.
        old_on_hand := CASE WHEN level_at IS NULL THEN all_on_hand[at] - others_on_hand[at]
                            ELSE level_on_hand[level_at] END;
        old_reserved := CASE WHEN level_at IS NULL THEN all_reserved[at] - others_reserved[at]
                             ELSE level_reserved[level_at] END;
        IF i_kind[n] IN ('release', 'commit', 'restock') AND NOT tracked[at] THEN
            i_kind[n] := CASE WHEN i_kind[n] = 'commit' THEN 'release' ELSE i_kind[n] END;
            i_on_hand[n] := 0;
            i_reserved[n] := greatest(i_reserved[n], -old_reserved);
        END IF;
        new_on_hand := CASE WHEN i_target[n] IS NOT NULL THEN old_on_hand - i_on_hand[n]
                            WHEN i_absolute[n] THEN i_on_hand[n] ELSE old_on_hand + i_on_hand[n] END;
        new_reserved := old_reserved + i_reserved[n];
        outcomes[n] := CASE
            WHEN at IS NULL OR NOT (live[at] OR i_kind[n] IN ('release', 'commit', 'restock')) THEN 'unknown'
            WHEN i_location[n] <> 'default' AND i_kind[n] IN ('set', 'adjust', 'transfer', 'import') AND NOT i_location[n] = ANY (active)
                THEN 'unknown_location'
            WHEN i_target[n] <> 'default' AND NOT i_target[n] = ANY (active) THEN 'unknown_target'
            WHEN i_expected[n] <> old_on_hand THEN 'stale'
            WHEN new_on_hand = old_on_hand AND new_reserved = old_reserved
                THEN CASE WHEN i_order[n] IS NULL THEN 'unchanged' ELSE 'updated' END
            -- Only the default location owes units: a backorder is reserved there, and a transfer takes what exists.
            WHEN new_on_hand < new_reserved
                 AND (NOT unlimited[at] OR level_at IS NOT NULL OR i_target[n] IS NOT NULL) THEN 'insufficient'
            ELSE 'updated' END;
        IF outcomes[n] = 'updated' AND (new_on_hand, new_reserved) <> (old_on_hand, old_reserved) THEN
            movements[n] := nextval('stock_movement_ids');
            deltas[n] := new_on_hand - old_on_hand;
            all_on_hand[at] := all_on_hand[at] + deltas[n];
            all_reserved[at] := all_reserved[at] + i_reserved[n];
            IF level_at IS NOT NULL THEN
                level_on_hand[level_at] := new_on_hand;
                level_reserved[level_at] := new_reserved;
                level_moved[level_at] := true;
                others_on_hand[at] := others_on_hand[at] + deltas[n];
                others_reserved[at] := others_reserved[at] + i_reserved[n];
                relocated[at] := true;
            END IF;
        END IF;
        after_on_hand[n] := CASE WHEN outcomes[n] = 'updated' THEN new_on_hand ELSE old_on_hand END;
        after_reserved[n] := CASE WHEN outcomes[n] = 'updated' THEN new_reserved ELSE old_reserved END;
        total_on_hand[n] := all_on_hand[at];
        total_reserved[n] := all_reserved[at];
        IF outcomes[n] = 'updated' AND i_target[n] IS NOT NULL THEN
            arrivals[n] := nextval('stock_movement_ids');
            all_on_hand[at] := all_on_hand[at] + i_on_hand[n];
            IF target_at IS NOT NULL THEN
                level_on_hand[target_at] := level_on_hand[target_at] + i_on_hand[n];
                level_moved[target_at] := true;
                others_on_hand[at] := others_on_hand[at] + i_on_hand[n];
            END IF;
            relocated[at] := true;
        END IF;
    END LOOP;

    IF NOT 'updated' = ANY (outcomes)
       OR (in_atomic AND outcomes && ARRAY['unknown', 'unknown_location', 'unknown_target', 'stale', 'insufficient']) THEN
        RETURN QUERY SELECT t.outcome, NULL::bigint, t.on_hand, t.reserved, NULL
                       FROM unnest(outcomes, after_on_hand, after_reserved) AS t (outcome, on_hand, reserved);
        RETURN;
    END IF;

    INSERT INTO stock_movements (store_id, id, variant_id, product_id, sku, kind, location, delta_on_hand, delta_reserved,
                                 on_hand_after, reserved_after, reason, reference, order_id, movement_key, actor,
                                 request_id, created_at)
    SELECT in_store_id, t.id, v.id, v.product_id, v.sku, t.kind, t.location, t.delta, t.reserved, t.on_hand_after,
           t.reserved_after, t.reason, t.reference, t.order_id, t.key, t.actor, t.request, moment
      FROM unnest(i_variant, movements, i_kind, i_location, deltas, i_reserved, total_on_hand, total_reserved, i_reason,
                  i_reference, i_order, i_key, i_actor, i_request)
           AS t (variant, id, kind, location, delta, reserved, on_hand_after, reserved_after, reason, reference, order_id, key,
                 actor, request)
           JOIN variants v ON v.store_id = in_store_id AND v.id = t.variant
     WHERE t.id IS NOT NULL;
    IF elsewhere THEN
        INSERT INTO stock_movements (store_id, id, variant_id, product_id, sku, kind, location, delta_on_hand, delta_reserved,
                                     on_hand_after, reserved_after, reason, reference, actor, request_id, created_at)
        SELECT in_store_id, t.id, v.id, v.product_id, v.sku, t.kind, t.target, t.on_hand, 0, t.on_hand_after + t.on_hand,
               t.reserved_after, t.reason, t.reference, t.actor, t.request, moment
          FROM unnest(i_variant, arrivals, i_kind, i_target, i_on_hand, total_on_hand, total_reserved, i_reason, i_reference,
                      i_actor, i_request)
               AS t (variant, id, kind, target, on_hand, on_hand_after, reserved_after, reason, reference, actor, request)
               JOIN variants v ON v.store_id = in_store_id AND v.id = t.variant
         WHERE t.id IS NOT NULL;
        INSERT INTO stock_levels AS s (store_id, variant_id, location, on_hand, reserved)
        SELECT in_store_id, t.variant, t.location, t.on_hand, t.reserved
          FROM unnest(level_variant, level_location, level_on_hand, level_reserved, level_moved)
               AS t (variant, location, on_hand, reserved, moved)
         WHERE t.moved
            ON CONFLICT ON CONSTRAINT stock_levels_pkey DO UPDATE SET on_hand = excluded.on_hand, reserved = excluded.reserved;
        relocations := ARRAY(
            SELECT (SELECT json_build_array(json_object_agg(l.code, l.old ORDER BY l.code),
                                            json_object_agg(l.code, l.now ORDER BY l.code))
                      FROM (SELECT 'default' AS code, t.old - t.old_others AS old, t.now - t.now_others AS now
                             UNION ALL
                            SELECT c.location, c.old, c.now
                              FROM unnest(level_variant, level_location, level_before, level_on_hand)
                                   AS c (variant, location, old, now)
                             WHERE c.variant = t.id) l
                     WHERE t.relocated AND l.old <> l.now HAVING count(*) > 0)
              FROM unnest(locked, before_on_hand, before_others, all_on_hand, others_on_hand, relocated)
                   WITH ORDINALITY AS t (id, old, old_others, now, now_others, relocated, n)
             ORDER BY t.n);
    END IF;
    WITH moved AS (
        UPDATE variants v
           SET on_hand = t.on_hand, reserved = t.reserved, other_on_hand = t.other_on_hand, other_reserved = t.other_reserved,
               updated_at = moment, version = v.version + 1
          FROM unnest(locked, all_on_hand, all_reserved, others_on_hand, others_reserved, relocated)
               AS t (id, on_hand, reserved, other_on_hand, other_reserved, relocated)
         WHERE v.store_id = in_store_id AND v.id = t.id
           AND ((v.on_hand, v.reserved) <> (t.on_hand, t.reserved) OR t.relocated)
        RETURNING v.product_id, v.deleted_at)
    SELECT array_agg(moved.product_id) INTO touched FROM moved WHERE moved.deleted_at IS NULL;
    -- One event of each type for each variant, however many items moved it.
    WITH parents AS (
        UPDATE products p
           SET on_hand = s.on_hand, reserved = s.reserved, in_stock = s.in_stock, updated_at = moment, version = p.version + 1
          FROM (SELECT v.product_id, sum(v.on_hand)::bigint AS on_hand, sum(v.reserved)::bigint AS reserved,
                       bool_or(is_sellable(v.track_inventory, v.allow_backorder, v.on_hand, v.reserved)) AS in_stock
                  FROM variants v
                 WHERE v.store_id = in_store_id AND v.product_id = ANY (touched) AND v.deleted_at IS NULL
                 GROUP BY v.product_id) s
         WHERE p.store_id = in_store_id AND p.id = s.product_id
        RETURNING p.id, p.version)
    INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data,
                        request_id, created_at, parent_version)
    SELECT in_store_id, new_event_id(), e.type, 'variant', v.id, v.version, i_actor[array_position(i_variant, v.id)],
           json_strip_nulls(json_build_object(
               'on_hand', CASE WHEN v.on_hand <> t.on_hand THEN json_build_array(t.on_hand, v.on_hand) END,
               'reserved', CASE WHEN v.reserved <> t.reserved THEN json_build_array(t.reserved, v.reserved) END,
               'available', CASE WHEN s.now <> s.old THEN json_build_array(s.old, s.now) END,
               'locations', t.locations))::text,
           variant_document(v.id, v.product_id, variant_head(v.head, v.edition), v.tail),
           i_request[array_position(i_variant, v.id)], moment, p.version
      FROM unnest(locked, before_on_hand, before_reserved, relocated, relocations)
           AS t (id, on_hand, reserved, relocated, locations)
           JOIN variants v ON v.store_id = in_store_id AND v.id = t.id
           JOIN parents p ON p.id = v.product_id
           CROSS JOIN LATERAL (SELECT t.on_hand - t.reserved, v.on_hand - v.reserved) AS s (old, now)
           CROSS JOIN LATERAL stock_event_types(v.track_inventory, v.low_stock_threshold, s.old, s.now) AS e
     WHERE v.deleted_at IS NULL AND ((v.on_hand, v.reserved) <> (t.on_hand, t.reserved) OR t.relocated)
       AND NOT silent
     ORDER BY v.id, e.n;

    IF NOT in_documents THEN
        RETURN QUERY SELECT t.outcome, t.movement_id, t.on_hand, t.reserved, NULL
                       FROM unnest(outcomes, movements, after_on_hand, after_reserved) AS t (outcome, movement_id, on_hand, reserved);
        RETURN;
    END IF;
    RETURN QUERY
    SELECT t.outcome, t.movement_id, t.on_hand, t.reserved,
           movement_document(m.id, m.variant_id, m.sku, m.kind, m.location, m.delta_on_hand, m.delta_reserved, m.on_hand_after,
                             m.reserved_after, m.reason, m.reference, m.order_id, m.actor, m.request_id, m.created_at)
      FROM unnest(outcomes, movements, after_on_hand, after_reserved) WITH ORDINALITY AS t (outcome, movement_id, on_hand, reserved, n)
           LEFT JOIN stock_movements m ON m.store_id = in_store_id AND m.id = t.movement_id
     ORDER BY t.n;
END $$;
