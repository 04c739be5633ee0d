ALTER TABLE orders ADD COLUMN expires_at timestamptz;
