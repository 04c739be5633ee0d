-- Bulk import: the jobs, their rows while they wait, what became of each row, and the queue that workers take jobs from.

CREATE SEQUENCE import_numbers;
CREATE TABLE imports (
    store_id          bigint      NOT NULL,
    id                text        NOT NULL,
    number            bigint      NOT NULL DEFAULT nextval('import_numbers'),  -- what events know it by
    resource          text        NOT NULL,
    status            text        NOT NULL DEFAULT 'queued',
    options           text        NOT NULL,
    media             text        NOT NULL,
    header            text,       -- of a CSV file: its delimiter and columns
    app_id            bigint,     -- null when an operator imports
    request_id        text        NOT NULL,
    total             integer     NOT NULL,
    checked           integer     NOT NULL DEFAULT 0,  -- rows found right before any is written, where one fault aborts
    processed         integer     NOT NULL DEFAULT 0,
    created           integer     NOT NULL DEFAULT 0,
    updated           integer     NOT NULL DEFAULT 0,
    unchanged         integer     NOT NULL DEFAULT 0,
    archived          integer     NOT NULL DEFAULT 0,
    failed            integer     NOT NULL DEFAULT 0,
    failure           text,       -- why the whole job failed, when no row is to blame
    version           integer     NOT NULL DEFAULT 1,
    created_at        timestamptz NOT NULL DEFAULT now(),
    started_at        timestamptz,
    finished_at       timestamptz,
    report_expires_at timestamptz NOT NULL DEFAULT now() + interval '30 days',
    expired           boolean     NOT NULL DEFAULT false,
    CONSTRAINT imports_pkey PRIMARY KEY (store_id, id),
    CONSTRAINT imports_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT imports_status_check CHECK (
        status IN ('queued', 'running', 'succeeded', 'partially_succeeded', 'failed'))
) WITH (fillfactor = 50);
CREATE INDEX imports_report_expires_at_idx ON imports (report_expires_at) WHERE NOT expired;

-- The uploaded rows, as they came, a few hundred to a part: what one transaction of the runner carries out.
CREATE TABLE import_parts (
    store_id  bigint  NOT NULL,
    import_id text    NOT NULL,
    part      integer NOT NULL,
    first_row integer NOT NULL,
    data      bytea   NOT NULL,
    CONSTRAINT import_parts_pkey PRIMARY KEY (store_id, import_id, part),
    CONSTRAINT import_parts_import_fkey FOREIGN KEY (store_id, import_id)
        REFERENCES imports (store_id, id) ON DELETE CASCADE
);
ALTER TABLE import_parts ALTER COLUMN data SET STORAGE EXTERNAL;  -- packed already

-- What became of each row. `raw` is kept of a failed row only, to be given back for mending.
CREATE TABLE import_rows (
    store_id  bigint  NOT NULL,
    import_id text    NOT NULL,
    row       integer NOT NULL,
    status    text    NOT NULL,
    result_id bigint,
    key       text    NOT NULL,
    errors    text,
    changes   text,
    raw       text,
    CONSTRAINT import_rows_pkey PRIMARY KEY (store_id, import_id, row),
    CONSTRAINT import_rows_import_fkey FOREIGN KEY (store_id, import_id)
        REFERENCES imports (store_id, id) ON DELETE CASCADE,
    CONSTRAINT import_rows_status_check CHECK (status IN ('created', 'updated', 'unchanged', 'failed'))
);
CREATE INDEX import_rows_failed_idx ON import_rows (store_id, import_id, row) WHERE status = 'failed';

-- Jobs that are not finished. Whoever holds the lease works; a lease that runs out is taken over at `next_part`.
-- A lane is a seat for a running job of one app in one store: there are two, and the index lets nobody share one.
CREATE TABLE import_queue (
    store_id    bigint      NOT NULL,
    import_id   text        NOT NULL,
    app_id      bigint      NOT NULL,  -- 0 when an operator imports
    lane        smallint,
    next_part   integer     NOT NULL DEFAULT 0,
    tries       integer     NOT NULL DEFAULT 0,  -- claims since the last part that was carried out
    lease_owner text        NOT NULL DEFAULT '',
    lease_until timestamptz NOT NULL DEFAULT now(),
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT import_queue_pkey PRIMARY KEY (store_id, import_id),
    CONSTRAINT import_queue_import_fkey FOREIGN KEY (store_id, import_id)
        REFERENCES imports (store_id, id) ON DELETE CASCADE,
    CONSTRAINT import_queue_lane_check CHECK (lane BETWEEN 1 AND 2)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX import_queue_lane_key ON import_queue (store_id, app_id, lane);
CREATE INDEX import_queue_created_at_idx ON import_queue (created_at);

-- The catalogue's one function again: what it now also tells is stock that moved, as move_stock does.

-- Stores products (p_), variants (v_), stock movements (m_) and events (e_) that were decided elsewhere. An id of null
-- is a new row; v_product, m_variant, e_product and e_variant count rows of this same call, from 1.
CREATE OR REPLACE FUNCTION save_products(
    in_store_id bigint, in_actor text, in_request_id text,
    p_id bigint[], p_external_id text[], p_slug text[], p_name text[], p_status text[], p_price bigint[],
    p_on_hand bigint[], p_reserved bigint[], p_in_stock boolean[], p_deleted boolean[], p_head text[], p_terms text[],
    v_id bigint[], v_product integer[], v_position integer[], v_sku text[], v_barcode text[], v_external_id text[],
    v_options_key text[], v_price bigint[], v_on_hand bigint[], v_track_inventory boolean[],
    v_allow_backorder boolean[], v_low_stock_threshold integer[], v_deleted boolean[], v_head text[],
    m_variant integer[], m_kind text[], m_delta bigint[], m_reason text[], m_reference text[],
    e_id text[], e_type text[], e_product integer[], e_variant integer[], e_changes text[],
    OUT product_ids bigint[], OUT variant_ids bigint[]
)
-- Arrays of every length want the same plans.
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    grown bigint;
BEGIN
    product_ids := ARRAY(SELECT coalesce(t.id, nextval('product_ids')) FROM unnest(p_id) WITH ORDINALITY AS t (id, n) ORDER BY t.n);
    variant_ids := ARRAY(SELECT coalesce(t.id, nextval('variant_ids')) FROM unnest(v_id) WITH ORDINALITY AS t (id, n) ORDER BY t.n);

    -- What goes first, so that a SKU freed in this call can be taken in this call.
    UPDATE variants v SET deleted_at = now(), updated_at = now(), version = v.version + 1
      FROM unnest(v_id, v_deleted) AS t (id, deleted)
     WHERE v.store_id = in_store_id AND v.id = t.id AND t.deleted;
    UPDATE products p
       SET external_id = t.external_id, slug = t.slug, name = t.name, status = t.status, price = t.price,
           on_hand = t.on_hand, reserved = t.reserved, in_stock = t.in_stock, head = t.head, terms = t.terms::tsvector,
           deleted_at = CASE WHEN t.deleted THEN now() END, updated_at = now(), version = p.version + 1
      FROM unnest(p_id, p_external_id, p_slug, p_name, p_status, p_price, p_on_hand, p_reserved, p_in_stock, p_deleted,
                  p_head, p_terms)
           AS t (id, external_id, slug, name, status, price, on_hand, reserved, in_stock, deleted, head, terms)
     WHERE p.store_id = in_store_id AND p.id = t.id;
    INSERT INTO products (store_id, id, external_id, slug, name, status, price, on_hand, reserved, in_stock, head, terms)
    SELECT in_store_id, product_ids[t.n], t.external_id, t.slug, t.name, t.status, t.price, t.on_hand, t.reserved,
           t.in_stock, t.head, t.terms::tsvector
      FROM unnest(p_id, p_external_id, p_slug, p_name, p_status, p_price, p_on_hand, p_reserved, p_in_stock, p_head, p_terms)
           WITH ORDINALITY AS t (id, external_id, slug, name, status, price, on_hand, reserved, in_stock, head, terms, n)
     WHERE t.id IS NULL;
    SELECT count(*) FILTER (WHERE t.id IS NULL) - count(*) FILTER (WHERE t.deleted) INTO grown
      FROM unnest(p_id, p_deleted) AS t (id, deleted);
    IF grown <> 0 THEN
        INSERT INTO row_counts (store_id, resource, delta) VALUES (in_store_id, 'products', grown);
    END IF;

    UPDATE variants v
       SET position = t.position, sku = t.sku, barcode = t.barcode, external_id = t.external_id,
           options_key = t.options_key, price = t.price, on_hand = t.on_hand, track_inventory = t.track_inventory,
           allow_backorder = t.allow_backorder, low_stock_threshold = t.low_stock_threshold, head = t.head,
           updated_at = now(), version = v.version + 1
      FROM unnest(v_id, v_position, v_sku, v_barcode, v_external_id, v_options_key, v_price, v_on_hand,
                  v_track_inventory, v_allow_backorder, v_low_stock_threshold, v_deleted, v_head)
           AS t (id, position, sku, barcode, external_id, options_key, price, on_hand,
                 track_inventory, allow_backorder, low_stock_threshold, deleted, head)
     WHERE v.store_id = in_store_id AND v.id = t.id AND NOT t.deleted;
    INSERT INTO variants (store_id, id, product_id, position, sku, barcode, external_id, options_key, price, on_hand,
                          track_inventory, allow_backorder, low_stock_threshold, head)
    SELECT in_store_id, variant_ids[t.n], product_ids[t.product], t.position, t.sku, t.barcode, t.external_id,
           t.options_key, t.price, t.on_hand, t.track_inventory, t.allow_backorder, t.low_stock_threshold, t.head
      FROM unnest(v_id, v_product, v_position, v_sku, v_barcode, v_external_id, v_options_key, v_price, v_on_hand,
                  v_track_inventory, v_allow_backorder, v_low_stock_threshold, v_head)
           WITH ORDINALITY AS t (id, product, position, sku, barcode, external_id, options_key, price, on_hand,
                 track_inventory, allow_backorder, low_stock_threshold, head, n)
     WHERE t.id IS NULL;

    IF m_variant <> '{}' THEN
        INSERT INTO stock_movements (store_id, variant_id, product_id, sku, kind, delta_on_hand, delta_reserved,
                                     on_hand_after, reserved_after, reason, reference, actor, request_id)
        SELECT in_store_id, v.id, v.product_id, v.sku, t.kind, t.delta, 0, v.on_hand, v.reserved, t.reason, t.reference,
               in_actor, in_request_id
          FROM unnest(m_variant, m_kind, m_delta, m_reason, m_reference) WITH ORDINALITY
               AS t (variant, kind, delta, reason, reference, n)
               JOIN variants v ON v.store_id = in_store_id AND v.id = variant_ids[t.variant]
         ORDER BY t.n;
        -- A new variant's stock is told with the variant; here is what moved on those that were there.
        INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
        SELECT in_store_id, new_event_id(), e.type, 'variant', v.id, v.version, in_actor,
               json_build_object('on_hand', json_build_array(v.on_hand - t.delta, v.on_hand),
                                 'available', json_build_array(s.old, s.now))::text,
               variant_document(v), in_request_id
          FROM unnest(m_variant, m_delta) WITH ORDINALITY AS t (variant, delta, n)
               JOIN variants v ON v.store_id = in_store_id AND v.id = v_id[t.variant]
               CROSS JOIN LATERAL (SELECT v.on_hand - t.delta - v.reserved, v.on_hand - v.reserved) AS s (old, now)
               CROSS JOIN LATERAL (VALUES
                   (1, 'product.inventory_changed', true),
                   (2, 'product.low_stock', v.track_inventory AND s.old > v.low_stock_threshold AND s.now <= v.low_stock_threshold),
                   (3, 'product.out_of_stock', v.track_inventory AND s.old > 0 AND s.now <= 0),
                   (4, 'product.back_in_stock', v.track_inventory AND s.old <= 0 AND s.now > 0)) AS e (place, type, happened)
         WHERE e.happened
         ORDER BY t.n, e.place;
    END IF;
    IF e_id <> '{}' THEN
        INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
        SELECT in_store_id, t.id, t.type, CASE WHEN v.id IS NULL THEN 'product' ELSE 'variant' END,
               coalesce(v.id, p.id), coalesce(v.version, p.version), in_actor, t.changes,
               CASE WHEN v.id IS NULL THEN product_document(p) ELSE variant_document(v) END, in_request_id
          FROM unnest(e_id, e_type, e_product, e_variant, e_changes) WITH ORDINALITY
               AS t (id, type, product, variant, changes, n)
               JOIN products p ON p.store_id = in_store_id AND p.id = product_ids[t.product]
               LEFT JOIN variants v ON v.store_id = in_store_id AND v.id = variant_ids[t.variant]
         ORDER BY t.n;
    END IF;
END $$;
