-- Whether the owner of the mailbox has confirmed the email address of an account, and the link that was emailed for that: the
-- hash of its token, and until when it works.
ALTER TABLE accounts ADD COLUMN email_verified_at timestamptz;
ALTER TABLE accounts ADD COLUMN verification_hash bytea;
ALTER TABLE accounts ADD COLUMN verification_expires_at timestamptz;
