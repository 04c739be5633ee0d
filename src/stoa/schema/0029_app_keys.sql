-- Public keys with which apps authenticate (private_key_jwt) instead of a client secret.
CREATE TABLE app_keys (
    app_id     bigint      NOT NULL,
    kid        text        NOT NULL,
    algorithm  text        NOT NULL,
    jwk        text        NOT NULL,  -- the public members only
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT app_keys_pkey PRIMARY KEY (app_id, kid),
    CONSTRAINT app_keys_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE,
    CONSTRAINT app_keys_algorithm_check CHECK (algorithm IN ('ES256', 'RS256', 'EdDSA'))
);
COMMENT ON TABLE app_keys IS 'global';

-- The assertions of the last minutes, so that none is used twice. Like tokens, they live on the coordinator of a cluster.
CREATE TABLE used_assertions (
    app_id     bigint      NOT NULL,
    jti_hash   bytea       NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT used_assertions_pkey PRIMARY KEY (app_id, jti_hash)
);
CREATE INDEX used_assertions_expires_at_idx ON used_assertions (expires_at);
COMMENT ON TABLE used_assertions IS 'local';
