-- The same data in the relational form that an ORM calls for, with the indexes its queries need.
CREATE SCHEMA baseline;

CREATE TABLE baseline.products (
    id                bigint        PRIMARY KEY,
    store_id          bigint        NOT NULL REFERENCES stores (id),
    name              text          NOT NULL,
    price             numeric(17,2) NOT NULL,
    external_id       text,
    slug              text          NOT NULL,
    description       text,
    status            text          NOT NULL,
    compare_at_price  numeric(17,2),
    cost_price        numeric(17,2),
    currency          text          NOT NULL,
    sku               text,
    barcode           text,
    brand             text,
    category          text,
    tags              text[]        NOT NULL,
    options           jsonb         NOT NULL,
    variants_count    integer       NOT NULL,
    weight            double precision,
    weight_unit       text          NOT NULL,
    requires_shipping boolean       NOT NULL,
    taxable           boolean       NOT NULL,
    track_inventory   boolean       NOT NULL,
    seo_title         text,
    seo_description   text,
    metadata          jsonb         NOT NULL,
    on_hand           bigint        NOT NULL,
    reserved          bigint        NOT NULL,
    in_stock          boolean       NOT NULL,
    created_at        timestamptz   NOT NULL,
    updated_at        timestamptz   NOT NULL,
    version           integer       NOT NULL,
    deleted_at        timestamptz
);

CREATE TABLE baseline.images (
    product_id bigint  NOT NULL REFERENCES baseline.products (id),
    id         integer NOT NULL,
    url        text    NOT NULL,
    alt        text,
    position   integer NOT NULL,
    PRIMARY KEY (product_id, id)
);

CREATE TABLE baseline.variants (
    id                  bigint        PRIMARY KEY,
    product_id          bigint        NOT NULL REFERENCES baseline.products (id),
    title               text          NOT NULL,
    option_values       jsonb         NOT NULL,
    sku                 text,
    barcode             text,
    price               numeric(17,2),
    effective_price     numeric(17,2) NOT NULL,
    compare_at_price    numeric(17,2),
    cost_price          numeric(17,2),
    weight              double precision,
    image_id            integer,
    position            integer       NOT NULL,
    is_default          boolean       NOT NULL,
    track_inventory     boolean       NOT NULL,
    allow_backorder     boolean       NOT NULL,
    low_stock_threshold integer,
    external_id         text,
    metadata            jsonb         NOT NULL,
    on_hand             bigint        NOT NULL,
    reserved            bigint        NOT NULL,
    created_at          timestamptz   NOT NULL,
    updated_at          timestamptz   NOT NULL,
    version             integer       NOT NULL,
    gtin                text,
    requires_shipping   boolean,
    taxable             boolean
);

CREATE TEMPORARY TABLE documents ON COMMIT DROP AS
SELECT p.*, ('{' || substr(head, 2) || '}')::jsonb AS doc FROM products p WHERE deleted_at IS NULL;

INSERT INTO baseline.products
SELECT id, store_id, name, (doc->>'price')::numeric, external_id, slug, doc->>'description', status,
       (doc->>'compare_at_price')::numeric, (doc->>'cost_price')::numeric, doc->>'currency', doc->>'sku', doc->>'barcode',
       doc->>'brand', doc->>'category', ARRAY(SELECT jsonb_array_elements_text(doc->'tags')), doc->'options',
       (doc->>'variants_count')::integer, (doc->>'weight')::float8, doc->>'weight_unit', (doc->>'requires_shipping')::boolean,
       (doc->>'taxable')::boolean, (doc->>'track_inventory')::boolean, doc->'seo'->>'title', doc->'seo'->>'description',
       doc->'metadata', on_hand, reserved, in_stock, created_at, updated_at, version, deleted_at
  FROM documents ORDER BY id;

INSERT INTO baseline.images
SELECT documents.id, image.id, image.url, image.alt, image.position
  FROM documents, jsonb_to_recordset(doc->'images') AS image (id integer, url text, alt text, position integer)
 ORDER BY documents.id, image.id;

INSERT INTO baseline.variants
SELECT v.id, v.product_id, doc->>'title', doc->'option_values', v.sku, v.barcode, (doc->>'price')::numeric,
       (doc->>'effective_price')::numeric, (doc->>'compare_at_price')::numeric, (doc->>'cost_price')::numeric,
       (doc->>'weight')::float8, (doc->>'image_id')::integer, v.position, (doc->>'is_default')::boolean, v.track_inventory,
       v.allow_backorder, v.low_stock_threshold, v.external_id, doc->'metadata', v.on_hand, v.reserved, v.created_at,
       v.updated_at, v.version, doc->>'gtin', (doc->>'requires_shipping')::boolean, (doc->>'taxable')::boolean
  FROM (SELECT *, ('{' || substr(head, 2) || '}')::jsonb AS doc FROM variants WHERE deleted_at IS NULL) v
 ORDER BY v.product_id, v.id;

-- What is written by the baseline itself: new rows, its ledger, its outbox and its idempotency keys.
ALTER TABLE baseline.products ALTER id ADD GENERATED BY DEFAULT AS IDENTITY (START 1000000000);
ALTER TABLE baseline.variants ALTER id ADD GENERATED BY DEFAULT AS IDENTITY (START 1000000000);

CREATE TABLE baseline.stock_movements (
    id            bigint      PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
    variant_id    bigint      NOT NULL REFERENCES baseline.variants (id),
    kind          text        NOT NULL,
    delta_on_hand bigint      NOT NULL,
    on_hand_after bigint      NOT NULL,
    delta_reserved bigint     NOT NULL,
    reserved_after bigint     NOT NULL,
    order_id      bigint,
    reason        text        NOT NULL,
    app_id        bigint      NOT NULL,
    created_at    timestamptz NOT NULL
);
CREATE INDEX stock_movements_of_variant ON baseline.stock_movements (variant_id, id);

CREATE TABLE baseline.events (
    id         uuid        PRIMARY KEY,
    store_id   bigint      NOT NULL,
    type       text        NOT NULL,
    data       jsonb       NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE INDEX events_of_store ON baseline.events (store_id, created_at);

CREATE TABLE baseline.idempotency_keys (
    store_id    bigint NOT NULL,
    app_id      bigint NOT NULL,
    key         text   NOT NULL,
    fingerprint text   NOT NULL,
    answer      jsonb,
    PRIMARY KEY (store_id, app_id, key)
);

CREATE UNIQUE INDEX products_external_id ON baseline.products (store_id, external_id) WHERE deleted_at IS NULL;
CREATE INDEX variants_sku ON baseline.variants (sku);
CREATE INDEX products_of_store ON baseline.products (store_id, id) WHERE deleted_at IS NULL;
CREATE INDEX variants_of_product ON baseline.variants (product_id, position);
