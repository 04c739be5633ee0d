"""SQL for the outbox of email."""

from stoa.db.query import Command, Query
from stoa.mail.contract import LeasedMail, Mail, MailBacklog, MailCounts

_MAIL = "email belongs to people, not to a store"
RETENTION_DAYS = 30

ADD = Query(
    int,
    """INSERT INTO mails (message_id, account_id, recipient, kind, subject, body, path, action, nonce)
       SELECT t.message_id, t.account_id, t.recipient, $4, $5, $6, $7, $8, $9
         FROM unnest($1::text[], $2::bigint[], $3::text[]) AS t (message_id, account_id, recipient)
       RETURNING id""",
    unbound=_MAIL,
)
DISCARD = Command("DELETE FROM mails WHERE id = ANY ($1::bigint[]) AND status <> 'sent'", unbound=_MAIL)

# --- sending -------------------------------------------------------------------------------------------------------

# Two workers may find the same mails; the second one waits for the first, and its conditions then fail.
LEASE = Query(
    LeasedMail,
    """UPDATE mails SET owner = $1, due_at = now() + make_interval(secs => $2), attempts = attempts + 1
        WHERE id IN (SELECT m.id FROM mails m WHERE m.status = 'waiting' AND m.due_at <= now()
                      ORDER BY m.due_at LIMIT $3::integer)
          AND status = 'waiting' AND due_at <= now()
       RETURNING id, message_id, recipient, kind, subject, body, path, action, nonce, attempts, created_at,
                 account_id""",
    unbound=_MAIL,
)
RENEW = Command(
    """UPDATE mails SET due_at = now() + make_interval(secs => $3)
        WHERE id = $1 AND owner = $2 AND status = 'waiting'""",
    unbound=_MAIL,
)
RELEASE = Command(
    """UPDATE mails SET owner = '', due_at = now(), attempts = attempts - 1
        WHERE id = ANY ($1::bigint[]) AND owner = $2 AND status = 'waiting'""",
    unbound=_MAIL,
)
# A mail that was sent counts as sent, even if another worker has its lease by now.
SENT = Command(
    "UPDATE mails SET status = 'sent', error = '', owner = '', finished_at = now() WHERE id = $1 AND status = 'waiting'",
    unbound=_MAIL,
)
RETRY = Command(
    """UPDATE mails SET error = $3, owner = '', due_at = now() + make_interval(secs => $4)
        WHERE id = $1 AND owner = $2 AND status = 'waiting'""",
    unbound=_MAIL,
)
FAIL = Command(
    """UPDATE mails SET status = 'failed', error = $3, owner = '', finished_at = now()
        WHERE id = $1 AND owner = $2 AND status = 'waiting'""",
    unbound=_MAIL,
)
EXPIRE = Command(
    """UPDATE mails SET status = 'failed', error = $2, owner = '', finished_at = now()
        WHERE id IN (SELECT m.id FROM mails m
                      WHERE m.status = 'waiting' AND m.due_at <= now()
                        AND m.created_at < now() - make_interval(secs => $1) ORDER BY m.due_at LIMIT 1000)
          AND status = 'waiting' AND due_at <= now()""",
    unbound=_MAIL,
)

# --- the outbox page -----------------------------------------------------------------------------------------------

_SELECT = """SELECT id, message_id, account_id, recipient, kind, subject, body, path, action, nonce <> '' AS has_token,
       status, attempts, error, due_at, created_at, finished_at
  FROM mails"""
PAGE = Query(
    Mail,
    f"""{_SELECT} WHERE id < $1 AND ($2 = '' OR strpos(recipient, $2) > 0 OR strpos(lower(subject), $2) > 0)
          AND ($3 = '' OR status = $3) ORDER BY id DESC LIMIT $4::integer""",
    unbound=_MAIL,
)
GET = Query(Mail, f"{_SELECT} WHERE id = $1", unbound=_MAIL)
COUNTS = Query(
    MailCounts,
    """SELECT (SELECT count(*) FROM (SELECT FROM mails WHERE status = 'waiting' LIMIT 1000) t) AS waiting,
              (SELECT count(*) FROM (SELECT FROM mails WHERE status = 'failed' LIMIT 1000) t) AS failed,
              (SELECT count(*) FROM (SELECT FROM mails WHERE status = 'waiting'
                  AND (attempts >= 3 OR due_at < now() - interval '10 minutes') LIMIT 1000) t) AS stuck""",
    unbound=_MAIL,
)
# Sent on purpose once more: a new id, so that no mail server drops it as a repeat.
RESEND = Command(
    """UPDATE mails m SET status = 'waiting', message_id = t.message_id, attempts = 0, error = '', owner = '', due_at = now(),
              created_at = now(), finished_at = NULL
         FROM unnest($1::bigint[], $2::text[]) AS t (id, message_id)
        WHERE m.id = t.id AND m.status <> 'waiting'""",
    unbound=_MAIL,
)
FAILED = Query(int, "SELECT id FROM mails WHERE status = 'failed' ORDER BY id LIMIT 1000", unbound=_MAIL)

# --- monitoring ----------------------------------------------------------------------------------------------------

BACKLOG = Query(
    MailBacklog,
    """SELECT count(*) AS waiting,
              coalesce(extract(epoch FROM now() - min(w.created_at)), 0)::double precision AS oldest_seconds,
              (SELECT count(*) FROM mails WHERE status = 'failed' AND finished_at > now() - interval '1 day') AS given_up
         FROM (SELECT created_at FROM mails WHERE status = 'waiting' ORDER BY due_at LIMIT 10000) w""",
    unbound=_MAIL,
)

# --- maintenance ---------------------------------------------------------------------------------------------------

DELETE_OLD_MAILS = Command(
    f"""DELETE FROM mails WHERE id IN (
           SELECT id FROM mails WHERE created_at < now() - interval '{RETENTION_DAYS} days' LIMIT 1000)""",
    unbound="maintenance covers all email",
)
