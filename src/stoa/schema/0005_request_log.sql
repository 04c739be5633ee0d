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

-- The load of the service over time, for operators: intervals of 5 minutes for a day, and of an hour for 30 days. Requests
-- are added up; the other figures are the highest that were measured, or NULL. ms_5 is as in usage_days.
CREATE TABLE service_samples (
    minutes          integer          NOT NULL,            -- the length of the interval: 5 or 60
    at               timestamptz      NOT NULL,            -- its start
    requests         bigint           NOT NULL DEFAULT 0,  -- to the app API
    client_errors    bigint           NOT NULL DEFAULT 0,
    rate_limited     bigint           NOT NULL DEFAULT 0,
    server_errors    bigint           NOT NULL DEFAULT 0,
    total_us         bigint           NOT NULL DEFAULT 0,
    ms_1             bigint           NOT NULL DEFAULT 0,
    ms_2             bigint           NOT NULL DEFAULT 0,
    ms_5             bigint           NOT NULL DEFAULT 0,
    ms_10            bigint           NOT NULL DEFAULT 0,
    ms_20            bigint           NOT NULL DEFAULT 0,
    ms_50            bigint           NOT NULL DEFAULT 0,
    ms_100           bigint           NOT NULL DEFAULT 0,
    ms_200           bigint           NOT NULL DEFAULT 0,
    ms_500           bigint           NOT NULL DEFAULT 0,
    ms_1000          bigint           NOT NULL DEFAULT 0,
    ms_2000          bigint           NOT NULL DEFAULT 0,
    ms_5000          bigint           NOT NULL DEFAULT 0,
    ms_more          bigint           NOT NULL DEFAULT 0,
    pending          bigint,            -- deliveries that wait to be sent
    unrouted         bigint,            -- events that wait for a router
    late_seconds     double precision,  -- how long a delivery or an event has waited for a worker
    imports_waiting  bigint,
    connections      bigint,            -- to the database
    max_connections  bigint,
    database_ms      double precision,  -- how long the database took for the simplest statement
    bytes            bigint,            -- the size of the database
    CONSTRAINT service_samples_pkey PRIMARY KEY (minutes, at),
    CONSTRAINT service_samples_minutes_check CHECK (minutes IN (5, 60))
) WITH (fillfactor = 50);
COMMENT ON TABLE service_samples IS 'local';

-- Request counts of the last two days by hour. The columns are those of usage_days.
CREATE TABLE usage_hours (
    store_id      bigint      NOT NULL,
    app_id        bigint      NOT NULL,
    hour          timestamptz NOT NULL,
    operation     text        NOT NULL,
    requests      bigint      NOT NULL,
    client_errors bigint      NOT NULL,
    rate_limited  bigint      NOT NULL,
    server_errors bigint      NOT NULL,
    total_us      bigint      NOT NULL,
    ms_1          bigint      NOT NULL,
    ms_2          bigint      NOT NULL,
    ms_5          bigint      NOT NULL,
    ms_10         bigint      NOT NULL,
    ms_20         bigint      NOT NULL,
    ms_50         bigint      NOT NULL,
    ms_100        bigint      NOT NULL,
    ms_200        bigint      NOT NULL,
    ms_500        bigint      NOT NULL,
    ms_1000       bigint      NOT NULL,
    ms_2000       bigint      NOT NULL,
    ms_5000       bigint      NOT NULL,
    ms_more       bigint      NOT NULL,
    CONSTRAINT usage_hours_pkey PRIMARY KEY (store_id, app_id, hour, operation)
) WITH (fillfactor = 60);
CREATE INDEX usage_hours_app_idx ON usage_hours (app_id, hour);
CREATE INDEX usage_hours_hour_idx ON usage_hours (hour);
COMMENT ON TABLE usage_hours IS 'store';
