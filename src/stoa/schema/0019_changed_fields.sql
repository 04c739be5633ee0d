-- The fields of which one must change, so that an update is sent; empty: every update.
ALTER TABLE webhooks ADD COLUMN changed text[] NOT NULL DEFAULT '{}';

-- A subscription as it selects and receives events. The release before this one reads the view "subscriptions".
CREATE VIEW event_subscriptions AS
    SELECT w.store_id, w.id, w.app_id, w.events, w.filter, w.changed, w.skip_own, w.ordering = 'resource' AS ordered,
           bounded_scopes(i.scopes, w.readable) AS granted_scopes, w.of_app, w.url, w.payload, w.fields, w.sealed_headers,
           w.sealed_secret, CASE WHEN w.old_secret_expires_at > now() THEN w.sealed_old_secret END AS sealed_old_secret,
           w.status, w.max_in_flight, w.rate_per_s, w.skip_before, w.ended_at IS NOT NULL AS ended,
           a.status <> 'active' OR s.status <> 'active' AS suspended,
           s.handle AS store_handle, s.name AS store_name, s.currency, s.timezone, s.locale
      FROM webhooks w
           JOIN apps a ON a.id = w.app_id
           JOIN stores s ON s.id = w.store_id
           LEFT JOIN installations i ON i.store_id = w.store_id AND i.app_id = w.app_id;
