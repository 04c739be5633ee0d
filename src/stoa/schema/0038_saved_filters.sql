-- The filters of a list that a person saved under a name. They contain no search words, which could be personal data.
CREATE TABLE saved_filters (
    store_id   bigint NOT NULL,
    account_id bigint NOT NULL,
    name       text NOT NULL,
    filters    text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT saved_filters_pkey PRIMARY KEY (store_id, account_id, name)
);
COMMENT ON TABLE saved_filters IS 'store';
