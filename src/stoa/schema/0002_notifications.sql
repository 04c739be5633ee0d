-- Email. A row is written in the transaction of its cause; the delivery process sends it. A mail whose due_at has passed may be
-- leased: the owner postpones due_at while it sends, so a mail whose sender dies is sent again.
CREATE SEQUENCE mail_ids;
CREATE TABLE mails (
    id          bigint      NOT NULL DEFAULT nextval('mail_ids'),
    message_id  text        NOT NULL,              -- the same for every attempt
    account_id  bigint,                            -- null: the recipient has no account
    recipient   text        NOT NULL,
    kind        text        NOT NULL,
    subject     text        NOT NULL,
    body        text        NOT NULL,
    path        text        NOT NULL DEFAULT '',   -- of the page that the mail links to
    action      text        NOT NULL DEFAULT '',   -- the label of that link
    nonce       text        NOT NULL DEFAULT '',   -- if set, the link ends with the one-time token that is derived from it
    status      text        NOT NULL DEFAULT 'waiting',
    attempts    integer     NOT NULL DEFAULT 0,
    error       text        NOT NULL DEFAULT '',
    owner       text        NOT NULL DEFAULT '',
    due_at      timestamptz NOT NULL DEFAULT now(),
    created_at  timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CONSTRAINT mails_pkey PRIMARY KEY (id),
    CONSTRAINT mails_account_fkey FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE,
    CONSTRAINT mails_status_check CHECK (status IN ('waiting', 'sent', 'failed'))
);
CREATE INDEX mails_due_at_idx ON mails (due_at) WHERE status = 'waiting';
CREATE INDEX mails_account_idx ON mails (account_id);
CREATE INDEX mails_created_at_idx ON mails (created_at);
COMMENT ON TABLE mails IS 'global';
