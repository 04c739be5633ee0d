-- The catalogue. `head` is the part of a resource's JSON that rarely moves, built once per change; `tail` is the part
-- that moves often, rendered by the database from its columns; an answer is '{"id":' || id || head || tail.

-- RFC 3339 in UTC with microseconds; immutable because the time zone is spelled out.
CREATE FUNCTION rfc3339(moment timestamptz) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');

CREATE FUNCTION stock_tail(on_hand bigint, reserved bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    ',"stock":{"on_hand":' || on_hand || ',"reserved":' || reserved || ',"available":' || on_hand - reserved || '}';

CREATE FUNCTION times_tail(created_at timestamptz, updated_at timestamptz, version integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    ',"created_at":"' || rfc3339(created_at) || '","updated_at":"' || rfc3339(updated_at) || '","version":' || version;

CREATE SEQUENCE product_ids;
CREATE TABLE products (
    store_id    bigint      NOT NULL,
    id          bigint      NOT NULL DEFAULT nextval('product_ids'),
    external_id text,
    slug        text        NOT NULL,
    name        text        NOT NULL,
    status      text        NOT NULL,
    price       bigint      NOT NULL,
    on_hand     bigint      NOT NULL,
    reserved    bigint      NOT NULL,
    in_stock    boolean     NOT NULL,
    version     integer     NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    deleted_at  timestamptz,
    head        text        NOT NULL,
    tail        text        GENERATED ALWAYS AS (
        stock_tail(on_hand, reserved) || ',"in_stock":' || CASE WHEN in_stock THEN 'true' ELSE 'false' END
        || times_tail(created_at, updated_at, version) || ',"deleted_at":null}') STORED,
    terms       tsvector    NOT NULL,
    CONSTRAINT products_pkey PRIMARY KEY (store_id, id),
    CONSTRAINT products_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT products_status_check CHECK (status IN ('active', 'draft', 'archived')),
    CONSTRAINT products_price_check CHECK (price >= 0)
) WITH (fillfactor = 90, toast_tuple_target = 4080);
ALTER TABLE products ALTER COLUMN head SET STORAGE MAIN;
-- Nobody asks for a document by its text: to gather statistics of it would only take time.
ALTER TABLE products ALTER COLUMN head SET STATISTICS 0, ALTER COLUMN tail SET STATISTICS 0;

CREATE UNIQUE INDEX products_external_id_key ON products (store_id, external_id) WHERE deleted_at IS NULL;
CREATE INDEX products_status_idx ON products (store_id, status, id) WHERE deleted_at IS NULL;
CREATE INDEX products_name_idx ON products (store_id, name, id) WHERE deleted_at IS NULL;
CREATE INDEX products_price_idx ON products (store_id, price, id) WHERE deleted_at IS NULL;
CREATE INDEX products_created_at_idx ON products (store_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX products_updated_at_idx ON products (store_id, updated_at, id);
CREATE INDEX products_terms_idx ON products USING gin (terms);

CREATE SEQUENCE variant_ids;
CREATE TABLE variants (
    store_id            bigint      NOT NULL,
    id                  bigint      NOT NULL DEFAULT nextval('variant_ids'),
    product_id          bigint      NOT NULL,
    position            integer     NOT NULL,
    sku                 text,
    barcode             text,
    external_id         text,
    options_key         text        NOT NULL,
    price               bigint,
    on_hand             bigint      NOT NULL,
    reserved            bigint      NOT NULL DEFAULT 0,
    track_inventory     boolean     NOT NULL,
    allow_backorder     boolean     NOT NULL,
    low_stock_threshold integer,
    version             integer     NOT NULL DEFAULT 1,
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    deleted_at          timestamptz,
    head                text        NOT NULL,
    tail                text        GENERATED ALWAYS AS (
        stock_tail(on_hand, reserved) || times_tail(created_at, updated_at, version) || '}') STORED,
    CONSTRAINT variants_pkey PRIMARY KEY (store_id, id),
    CONSTRAINT variants_product_fkey FOREIGN KEY (store_id, product_id) REFERENCES products (store_id, id) ON DELETE CASCADE,
    CONSTRAINT variants_price_check CHECK (price >= 0),
    -- No oversell, whatever the concurrency.
    CONSTRAINT variants_stock_check CHECK (
        reserved >= 0 AND (reserved <= on_hand OR allow_backorder OR NOT track_inventory))
) WITH (fillfactor = 85, toast_tuple_target = 4080);
ALTER TABLE variants ALTER COLUMN head SET STORAGE MAIN;
ALTER TABLE variants ALTER COLUMN head SET STATISTICS 0, ALTER COLUMN tail SET STATISTICS 0;

CREATE UNIQUE INDEX variants_sku_key ON variants (store_id, sku) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX variants_external_id_key ON variants (store_id, external_id) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX variants_options_key ON variants (store_id, product_id, options_key) WHERE deleted_at IS NULL;
CREATE INDEX variants_barcode_idx ON variants (store_id, barcode) WHERE deleted_at IS NULL;
CREATE INDEX variants_product_idx ON variants (store_id, product_id, position, id) WHERE deleted_at IS NULL;
CREATE INDEX variants_updated_at_idx ON variants (store_id, updated_at, id);
