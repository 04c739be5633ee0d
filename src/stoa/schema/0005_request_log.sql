-- The requests of each app, for its developer: what was called, with which outcome, and nothing else that the caller sent.
-- `id` orders the requests by time: microseconds since 1970, and two digits that tell requests of one microsecond apart.
-- There is no foreign key to stores: a row of a missing store must not block all others; it expires.
CREATE TABLE request_log (
    store_id    bigint      NOT NULL,
    app_id      bigint      NOT NULL,
    id          bigint      NOT NULL,
    at          timestamptz NOT NULL,  -- when the response was sent
    request_id  text        NOT NULL,
    method      text        NOT NULL,
    operation   text        NOT NULL,  -- empty for an unknown route
    path        text        NOT NULL,  -- words of the API's paths and ids; all else is replaced
    status      integer     NOT NULL,
    code        text        NOT NULL,  -- of the problem; empty if the request succeeded
    faults      text        NOT NULL,  -- JSON: pairs of pointer and code
    duration_us bigint      NOT NULL,
    CONSTRAINT request_log_pkey PRIMARY KEY (store_id, app_id, id)
);
CREATE INDEX request_log_app_idx ON request_log (app_id, id);
CREATE INDEX request_log_id_idx ON request_log (id);
COMMENT ON TABLE request_log IS 'store';
