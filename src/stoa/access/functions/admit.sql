-- The store with a handle or a host, the token with one of the hashes on it, what the store grants to the token's app, and a token of its
-- rate limit, if nothing refuses the request. The default limits are null if the rate limit is to be left alone.
CREATE FUNCTION admit(
    in_handle text, in_host text, in_hashes bytea[], in_burst double precision, in_refill double precision,
    OUT id bigint, OUT handle text, OUT name text, OUT currency text, OUT status text, OUT prices_include_tax boolean,
    OUT timezone text, OUT locale text, OUT shard text, OUT locations text,
    OUT app_id bigint, OUT app_name text, OUT app_status text, OUT seconds_left double precision, OUT requested text[],
    OUT created_at timestamptz, OUT invalid boolean,
    OUT scopes text[], OUT rate_burst integer, OUT rate_refill integer, OUT reinstalled_at timestamptz, OUT definitions text,
    OUT granted double precision, OUT remaining double precision
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    SELECT s.id, s.handle, s.name, s.currency, s.status, s.prices_include_tax, s.timezone, s.locale, s.shard, s.locations
      INTO id, handle, name, currency, status, prices_include_tax, timezone, locale, shard, locations
      FROM stores s
     WHERE s.id = coalesce((SELECT n.id FROM stores n WHERE n.handle = in_handle),
                           (SELECT h.store_id FROM store_hosts h WHERE h.host = in_host));
    SELECT t.app_id, t.app_name, t.app_status, t.seconds_left, t.requested, t.created_at, t.invalid
      INTO app_id, app_name, app_status, seconds_left, requested, created_at, invalid
      FROM token_access(admit.id, in_hashes) t;
    SELECT g.scopes, g.rate_burst, g.rate_refill, g.reinstalled_at, g.definitions
      INTO scopes, rate_burst, rate_refill, reinstalled_at, definitions
      FROM store_grant(admit.id, admit.app_id) g;
    IF in_burst IS NOT NULL AND admit.scopes IS NOT NULL AND admit.status = 'active' AND admit.app_status = 'active'
       AND NOT admit.invalid AND admit.seconds_left > 0
       AND (admit.reinstalled_at IS NULL OR admit.created_at >= admit.reinstalled_at) THEN
        SELECT t.granted, t.remaining INTO granted, remaining
          FROM take_tokens(admit.id, admit.app_id, 'requests', 1, coalesce(admit.rate_burst, in_burst),
                           coalesce(admit.rate_refill, in_refill)) t;
    END IF;
END $$;
