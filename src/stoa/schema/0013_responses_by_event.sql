-- A stored response that repeats the data of an event refers to the event instead of storing the same bytes a second time.
ALTER TABLE idempotency_keys ADD COLUMN event_id text;
