-- Bulk import: the jobs, their rows while they wait, what became of each row, and the queue that workers take jobs from.

CREATE SEQUENCE import_numbers;
CREATE TABLE imports (
    store_id          bigint      NOT NULL,
    id                text        NOT NULL,
    number            bigint      NOT NULL DEFAULT nextval('import_numbers'),  -- what events know it by
    resource          text        NOT NULL,
    status            text        NOT NULL DEFAULT 'queued',
    options           text        NOT NULL,
    media             text        NOT NULL,
    header            text,       -- of a CSV file: its delimiter and columns
    app_id            bigint,     -- null when an operator imports
    request_id        text        NOT NULL,
    total             integer     NOT NULL,
    checked           integer     NOT NULL DEFAULT 0,  -- rows found right before any is written, where one fault aborts
    processed         integer     NOT NULL DEFAULT 0,
    created           integer     NOT NULL DEFAULT 0,
    updated           integer     NOT NULL DEFAULT 0,
    unchanged         integer     NOT NULL DEFAULT 0,
    archived          integer     NOT NULL DEFAULT 0,
    failed            integer     NOT NULL DEFAULT 0,
    failure           text,       -- why the whole job failed, when no row is to blame
    version           integer     NOT NULL DEFAULT 1,
    created_at        timestamptz NOT NULL DEFAULT now(),
    started_at        timestamptz,
    finished_at       timestamptz,
    report_expires_at timestamptz NOT NULL DEFAULT now() + interval '30 days',
    expired           boolean     NOT NULL DEFAULT false,
    CONSTRAINT imports_pkey PRIMARY KEY (store_id, id),
    CONSTRAINT imports_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT imports_status_check CHECK (
        status IN ('queued', 'running', 'succeeded', 'partially_succeeded', 'failed'))
) WITH (fillfactor = 50);
CREATE INDEX imports_report_expires_at_idx ON imports (report_expires_at) WHERE NOT expired;

-- The uploaded rows, as they came, a few hundred to a part: what one transaction of the runner carries out.
CREATE TABLE import_parts (
    store_id  bigint  NOT NULL,
    import_id text    NOT NULL,
    part      integer NOT NULL,
    first_row integer NOT NULL,
    data      bytea   NOT NULL,
    CONSTRAINT import_parts_pkey PRIMARY KEY (store_id, import_id, part),
    CONSTRAINT import_parts_import_fkey FOREIGN KEY (store_id, import_id)
        REFERENCES imports (store_id, id) ON DELETE CASCADE
);
ALTER TABLE import_parts ALTER COLUMN data SET STORAGE EXTERNAL;  -- packed already

-- What became of each row. `raw` is kept of a failed row only, to be given back for mending.
CREATE TABLE import_rows (
    store_id  bigint  NOT NULL,
    import_id text    NOT NULL,
    row       integer NOT NULL,
    status    text    NOT NULL,
    result_id bigint,
    key       text    NOT NULL,
    errors    text,
    changes   text,
    raw       text,
    CONSTRAINT import_rows_pkey PRIMARY KEY (store_id, import_id, row),
    CONSTRAINT import_rows_import_fkey FOREIGN KEY (store_id, import_id)
        REFERENCES imports (store_id, id) ON DELETE CASCADE,
    CONSTRAINT import_rows_status_check CHECK (status IN ('created', 'updated', 'unchanged', 'failed'))
);
CREATE INDEX import_rows_failed_idx ON import_rows (store_id, import_id, row) WHERE status = 'failed';

-- Jobs that are not finished. Whoever holds the lease works; a lease that runs out is taken over at `next_part`.
-- A lane is a seat for a running job of one app in one store: there are two, and the index lets nobody share one.
CREATE TABLE import_queue (
    store_id    bigint      NOT NULL,
    import_id   text        NOT NULL,
    app_id      bigint      NOT NULL,  -- 0 when an operator imports
    lane        smallint,
    next_part   integer     NOT NULL DEFAULT 0,
    tries       integer     NOT NULL DEFAULT 0,  -- claims since the last part that was carried out
    lease_owner text        NOT NULL DEFAULT '',
    lease_until timestamptz NOT NULL DEFAULT now(),
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT import_queue_pkey PRIMARY KEY (store_id, import_id),
    CONSTRAINT import_queue_import_fkey FOREIGN KEY (store_id, import_id)
        REFERENCES imports (store_id, id) ON DELETE CASCADE,
    CONSTRAINT import_queue_lane_check CHECK (lane BETWEEN 1 AND 2)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX import_queue_lane_key ON import_queue (store_id, app_id, lane);
CREATE INDEX import_queue_created_at_idx ON import_queue (created_at);
