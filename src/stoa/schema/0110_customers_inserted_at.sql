-- When the row of a customer was inserted. Unlike created_at, no caller chooses it, so it tells a customer from another one who got the
-- same id after a restore. Null for rows from before, whose created_at was the time of their insertion.
ALTER TABLE customers ADD COLUMN inserted_at timestamptz;
ALTER TABLE customers ALTER COLUMN inserted_at SET DEFAULT now();
