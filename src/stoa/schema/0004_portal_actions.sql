-- Forms of store pages that were carried out: submitting one twice changes nothing twice. Kept for a day.
CREATE TABLE submitted_forms (
    store_id    bigint      NOT NULL,
    account_id  bigint      NOT NULL,
    key         text        NOT NULL,
    fingerprint bytea       NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT submitted_forms_pkey PRIMARY KEY (store_id, account_id, key)
);
CREATE INDEX submitted_forms_created_at_idx ON submitted_forms (created_at);
COMMENT ON TABLE submitted_forms IS 'store';

-- The person who started an import in the portal; null for apps and operators.
ALTER TABLE imports ADD COLUMN account_id bigint;

-- When the person dismissed the checklist of the overview; null while it is shown.
ALTER TABLE accounts ADD COLUMN checklist_dismissed_at timestamptz;
