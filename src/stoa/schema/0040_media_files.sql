-- The pictures that Stoa stores. A file is written before it is referred to, so a crash leaves an unreferenced file and never a
-- missing one. `unreferenced_since` is null while a product shows the picture; the removal of files keeps it up to date.
CREATE TABLE media_files (
    store_id           bigint NOT NULL,
    name               text NOT NULL,
    width              integer NOT NULL,
    height             integer NOT NULL,
    bytes              bigint NOT NULL,
    widths             integer[] NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now(),
    unreferenced_since timestamptz DEFAULT now(),
    CONSTRAINT media_files_pkey PRIMARY KEY (store_id, name)
);
COMMENT ON TABLE media_files IS 'store';

-- Images whose `source_url` is to be fetched. A row is a lease until `due_at`.
CREATE TABLE picture_fetches (
    store_id   bigint NOT NULL,
    product_id bigint NOT NULL,
    image_id   integer NOT NULL,
    source_url text NOT NULL,
    attempts   integer NOT NULL DEFAULT 0,
    due_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT picture_fetches_pkey PRIMARY KEY (store_id, product_id, image_id)
);
CREATE INDEX picture_fetches_due_idx ON picture_fetches (due_at);
COMMENT ON TABLE picture_fetches IS 'store';

-- Stores that were erased, whose files are still to be removed.
CREATE TABLE erased_media (
    erased_id bigint NOT NULL,
    CONSTRAINT erased_media_pkey PRIMARY KEY (erased_id)
);
COMMENT ON TABLE erased_media IS 'global';
