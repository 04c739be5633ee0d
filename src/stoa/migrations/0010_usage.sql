-- How each app uses each store: figures by the day and by the hour, and the latest requests that were refused.
-- No foreign key to stores: a row of a store that is gone must not stop the figures of all others; it ages out.
-- ms_5 counts the requests that took more than the bound before it and at most 5 milliseconds.

CREATE TABLE usage_days (
    store_id      bigint NOT NULL,
    app_id        bigint NOT NULL,
    day           date   NOT NULL,
    operation     text   NOT NULL,
    requests      bigint NOT NULL,
    client_errors bigint NOT NULL,  -- 4xx but 429
    rate_limited  bigint NOT NULL,  -- 429
    server_errors bigint NOT NULL,  -- 5xx
    total_us      bigint NOT NULL,
    ms_1          bigint NOT NULL,
    ms_2          bigint NOT NULL,
    ms_5          bigint NOT NULL,
    ms_10         bigint NOT NULL,
    ms_20         bigint NOT NULL,
    ms_50         bigint NOT NULL,
    ms_100        bigint NOT NULL,
    ms_200        bigint NOT NULL,
    ms_500        bigint NOT NULL,
    ms_1000       bigint NOT NULL,
    ms_2000       bigint NOT NULL,
    ms_5000       bigint NOT NULL,
    ms_more       bigint NOT NULL,
    CONSTRAINT usage_days_pkey PRIMARY KEY (store_id, app_id, day, operation)
) WITH (fillfactor = 60);
CREATE INDEX usage_days_app_idx ON usage_days (app_id, day);
CREATE INDEX usage_days_day_idx ON usage_days (day);

CREATE TABLE usage_hours (
    store_id      bigint      NOT NULL,
    app_id        bigint      NOT NULL,
    hour          timestamptz NOT NULL,
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
    CONSTRAINT usage_hours_pkey PRIMARY KEY (store_id, app_id, hour)
) WITH (fillfactor = 60);
CREATE INDEX usage_hours_app_idx ON usage_hours (app_id, hour);
CREATE INDEX usage_hours_hour_idx ON usage_hours (hour);

-- The latest refusals of an app by a store: why, and under which request id; nothing of what was sent.
CREATE SEQUENCE failed_request_ids;
CREATE TABLE failed_requests (
    store_id      bigint      NOT NULL,
    app_id        bigint      NOT NULL,
    at            timestamptz NOT NULL,
    id            bigint      NOT NULL DEFAULT nextval('failed_request_ids'),
    request_id    text        NOT NULL,
    method        text        NOT NULL,
    operation     text        NOT NULL,
    status        integer     NOT NULL,
    code          text        NOT NULL,
    fault_pointer text        NOT NULL,  -- of the first fault that was named; empty when none was
    fault_code    text        NOT NULL,
    duration_us   bigint      NOT NULL,
    CONSTRAINT failed_requests_pkey PRIMARY KEY (store_id, app_id, at, id)
);
CREATE INDEX failed_requests_app_idx ON failed_requests (app_id, at, id);
CREATE INDEX failed_requests_at_idx ON failed_requests (at);
