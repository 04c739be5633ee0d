-- The stream that an app reads of a store: one at a time, across workers and machines. A lease that is not renewed expires.
-- After a crash of the database it is empty, and each stream that still runs takes its lease again.
CREATE UNLOGGED TABLE stream_leases (
    store_id    bigint NOT NULL,
    app_id      bigint NOT NULL,
    holder      text NOT NULL,
    lease_until timestamptz NOT NULL,
    CONSTRAINT stream_leases_pkey PRIMARY KEY (store_id, app_id)
);
COMMENT ON TABLE stream_leases IS 'store';
