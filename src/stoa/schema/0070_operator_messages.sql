-- What operators tell people: why an account is disabled, and the page that an announcement leads to. A reset link can also
-- turn off two-factor authentication.
ALTER TABLE accounts ADD COLUMN disabled_reason text;
ALTER TABLE account_links ADD COLUMN two_factor boolean NOT NULL DEFAULT false;
ALTER TABLE announcements ADD COLUMN link_url text;
ALTER TABLE announcements ADD COLUMN link_label text;
