-- Tokens with which a program, such as a CI job, pushes the file of one app. A revoked token is deleted.
CREATE SEQUENCE deploy_token_ids;
CREATE TABLE deploy_tokens (
    id         bigint      NOT NULL DEFAULT nextval('deploy_token_ids'),
    app_id     bigint      NOT NULL,
    account_id bigint,               -- who created it; null for an operator
    name       text        NOT NULL,
    token_hash bytea       NOT NULL,
    hint       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,          -- null if it never expires
    used_at    timestamptz,
    CONSTRAINT deploy_tokens_pkey PRIMARY KEY (id),
    CONSTRAINT deploy_tokens_token_hash_key UNIQUE (token_hash),
    CONSTRAINT deploy_tokens_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE
);
CREATE INDEX deploy_tokens_app_idx ON deploy_tokens (app_id);
COMMENT ON TABLE deploy_tokens IS 'global';
