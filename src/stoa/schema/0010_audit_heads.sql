-- The sealed end of each audit chain; the chain of the service has the store 0.
CREATE TABLE audit_heads (
    store_id  bigint      NOT NULL,
    position  bigint      NOT NULL,
    seal      bytea       NOT NULL,
    mac       bytea       NOT NULL,
    sealed_at timestamptz NOT NULL DEFAULT now(),
    logged_at timestamptz,
    CONSTRAINT audit_heads_pkey PRIMARY KEY (store_id)
);
COMMENT ON TABLE audit_heads IS 'local';
