-- What single apps see of an event instead of members of `data` and `changes`: a JSON object by app id, null for most events.
ALTER TABLE events ADD COLUMN app_views text;
