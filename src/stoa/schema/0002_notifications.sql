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

-- Notifications to people. A row is written even if the person wants only an email, because repeats are recognized by it.
CREATE SEQUENCE notification_ids;
CREATE TABLE notifications (
    id         bigint      NOT NULL DEFAULT nextval('notification_ids'),
    account_id bigint      NOT NULL,
    kind       text        NOT NULL,
    subject    text        NOT NULL,  -- what it is about, such as webhook:8
    title      text        NOT NULL,
    body       text        NOT NULL,
    path       text        NOT NULL,  -- of the page to look at
    action     text        NOT NULL,
    shown      boolean     NOT NULL,  -- in the portal
    created_at timestamptz NOT NULL DEFAULT now(),
    read_at    timestamptz,
    CONSTRAINT notifications_pkey PRIMARY KEY (id),
    CONSTRAINT notifications_account_fkey FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE
);
CREATE INDEX notifications_account_idx ON notifications (account_id, id);
CREATE INDEX notifications_unread_idx ON notifications (account_id) WHERE shown AND read_at IS NULL;
CREATE INDEX notifications_subject_idx ON notifications (account_id, kind, subject, created_at);
CREATE INDEX notifications_created_at_idx ON notifications (created_at);
COMMENT ON TABLE notifications IS 'global';

-- Only kinds for which a person has chosen; the others have their defaults.
CREATE TABLE notification_preferences (
    account_id bigint  NOT NULL,
    kind       text    NOT NULL,
    portal     boolean NOT NULL,
    email      boolean NOT NULL,
    CONSTRAINT notification_preferences_pkey PRIMARY KEY (account_id, kind),
    CONSTRAINT notification_preferences_account_fkey FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE
);
COMMENT ON TABLE notification_preferences IS 'global';

-- The browsers from which an account has signed in, each known by a cookie.
CREATE TABLE account_devices (
    account_id  bigint      NOT NULL,
    device_hash bytea       NOT NULL,
    seen_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT account_devices_pkey PRIMARY KEY (account_id, device_hash),
    CONSTRAINT account_devices_account_fkey FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE
);
CREATE INDEX account_devices_seen_at_idx ON account_devices (seen_at);
COMMENT ON TABLE account_devices IS 'global';

-- Requests for a password reset, until the delivery process answers them; most likely within seconds.
CREATE SEQUENCE reset_request_ids;
CREATE TABLE reset_requests (
    id         bigint      NOT NULL DEFAULT nextval('reset_request_ids'),
    email      text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT reset_requests_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE reset_requests IS 'local';

-- Texts of operators that every signed-in person sees between two times, until she dismisses them.
CREATE SEQUENCE announcement_ids;
CREATE TABLE announcements (
    id         bigint      NOT NULL DEFAULT nextval('announcement_ids'),
    text       text        NOT NULL,
    starts_at  timestamptz NOT NULL,
    ends_at    timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT announcements_pkey PRIMARY KEY (id)
);
CREATE INDEX announcements_ends_at_idx ON announcements (ends_at);
COMMENT ON TABLE announcements IS 'global';

CREATE TABLE announcement_dismissals (
    account_id      bigint NOT NULL,
    announcement_id bigint NOT NULL,
    CONSTRAINT announcement_dismissals_pkey PRIMARY KEY (account_id, announcement_id),
    CONSTRAINT announcement_dismissals_account_fkey FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE,
    CONSTRAINT announcement_dismissals_announcement_fkey FOREIGN KEY (announcement_id) REFERENCES announcements (id)
        ON DELETE CASCADE
);
CREATE INDEX announcement_dismissals_announcement_idx ON announcement_dismissals (announcement_id);
COMMENT ON TABLE announcement_dismissals IS 'global';
