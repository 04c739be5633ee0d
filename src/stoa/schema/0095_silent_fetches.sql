-- A picture of an import that sends no events is fetched without one too.
ALTER TABLE picture_fetches ADD COLUMN silent boolean NOT NULL DEFAULT false;
