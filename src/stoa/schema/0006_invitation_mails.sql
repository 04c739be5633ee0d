-- The email that carries an invitation; null if somebody passes the link on. There is no foreign key: an invitation ends before
-- its email is deleted.
ALTER TABLE team_invitations ADD COLUMN mail_id bigint;
ALTER TABLE account_links ADD COLUMN mail_id bigint;

-- The emails that were given up lately are counted every few seconds.
CREATE INDEX mails_failed_idx ON mails (finished_at) WHERE status = 'failed';
