-- The collections of a store. A collection that is being deleted keeps its handle until its products have left it.
CREATE TABLE collections (
    store_id         bigint NOT NULL,
    handle           text NOT NULL,
    title            text NOT NULL,
    description      text,
    picture          text,
    rules            text,
    version          integer NOT NULL DEFAULT 1,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    deleted_revision bigint,
    CONSTRAINT collections_pkey PRIMARY KEY (store_id, handle)
);
COMMENT ON TABLE collections IS 'store';
-- Which products are in which collections, as their documents say. A product without a position has the largest one.
CREATE TABLE collection_products (
    store_id   bigint NOT NULL,
    product_id bigint NOT NULL,
    handle     text NOT NULL,
    position   integer NOT NULL,
    CONSTRAINT collection_products_pkey PRIMARY KEY (store_id, product_id, handle),
    CONSTRAINT collection_products_product_fkey FOREIGN KEY (store_id, product_id) REFERENCES products (store_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX collection_products_position_key ON collection_products (store_id, handle, position, product_id);
ALTER TABLE collection_products ALTER COLUMN store_id SET (n_distinct = 1);
COMMENT ON TABLE collection_products IS 'store';
-- The number of changes of a store's rules. A row of its own, so that a change waits for no scan.
CREATE TABLE collection_revisions (
    store_id bigint NOT NULL,
    revision bigint NOT NULL,
    CONSTRAINT collection_revisions_pkey PRIMARY KEY (store_id)
);
COMMENT ON TABLE collection_revisions IS 'store';
-- How far the rules were applied to the products that existed before them.
CREATE TABLE collection_scans (
    store_id bigint NOT NULL,
    applied  bigint NOT NULL DEFAULT 0,
    scanning bigint NOT NULL DEFAULT 0,
    reached  bigint NOT NULL DEFAULT 0,
    CONSTRAINT collection_scans_pkey PRIMARY KEY (store_id)
);
COMMENT ON TABLE collection_scans IS 'store';
