"""SQL for accounts, links, ownership, install requests, announcements and forms."""

from datetime import datetime

import msgspec

from stoa.accounts.contract import (
    Account,
    AccountInvitation,
    Announcement,
    CurrentAnnouncement,
    Developer,
    InstallRequest,
    Link,
    OwnedApp,
    OwnedStore,
)
from stoa.db.fan_out import FanOut, figures
from stoa.db.query import Command, Query

_ACCOUNTS = "accounts belong to no store"
_OWNER = "it finds what an account owns, by the account"
_CHORE = "maintenance covers all accounts"

# --- accounts ----------------------------------------------------------------------------------------------

_SELECT_ACCOUNT = """SELECT id, email, name, operator, status, totp_secret IS NOT NULL AS two_factor, created_at,
       email_verified_at IS NOT NULL AS verified, CASE WHEN status = 'disabled' THEN disabled_reason END AS disabled_reason
  FROM accounts"""
LIST_ACCOUNTS = Query(Account, f"{_SELECT_ACCOUNT} ORDER BY id", unbound=_ACCOUNTS)
GET_ACCOUNT = Query(Account, f"{_SELECT_ACCOUNT} WHERE id = $1", unbound=_ACCOUNTS)
ACCOUNT_BY_EMAIL = Query(Account, f"{_SELECT_ACCOUNT} WHERE email = $1", unbound=_ACCOUNTS)
ANY_ACCOUNT = Query(bool, "SELECT EXISTS (SELECT FROM accounts)", unbound=_ACCOUNTS)
CREATE_ACCOUNT = Query(
    int,
    "INSERT INTO accounts (email, name, password_hash, operator) VALUES ($1, $2, $3, $4) RETURNING id",
    unbound=_ACCOUNTS,
)
RENAME_ACCOUNT = Command(
    "UPDATE accounts SET name = $2, updated_at = now() WHERE id = $1 AND name <> $2", unbound=_ACCOUNTS
)
SET_PASSWORD = Command("UPDATE accounts SET password_hash = $2, updated_at = now() WHERE id = $1", unbound=_ACCOUNTS)
SET_ACCOUNT_STATUS = Command(
    "UPDATE accounts SET status = $2, disabled_reason = $3, updated_at = now() WHERE id = $1 AND status <> $2",
    unbound=_ACCOUNTS,
)
# Citus refuses now() inside coalesce; least ignores null.
DISMISS_CHECKLIST = Command(
    "UPDATE accounts SET checklist_dismissed_at = least(checklist_dismissed_at, now()) WHERE id = $1",
    unbound=_ACCOUNTS,
)
CHECKLIST_DISMISSED = Query(
    bool, "SELECT checklist_dismissed_at IS NOT NULL FROM accounts WHERE id = $1", unbound=_ACCOUNTS
)

# Whether a person got an email of a kind a moment ago: a second one would only annoy, and end the link of the first.
MAILED_RECENTLY = Query(
    bool,
    """SELECT EXISTS (SELECT FROM mails WHERE account_id = $1 AND kind = $2
                        AND created_at > now() - interval '5 minutes')""",
    unbound=_ACCOUNTS,
)

# --- verification of addresses -----------------------------------------------------------------------------

ASK_FOR_VERIFICATION = Command(
    """UPDATE accounts SET verification_hash = $2, verification_expires_at = now() + make_interval(hours => $3)
        WHERE id = $1 AND email_verified_at IS NULL""",
    unbound=_ACCOUNTS,
)
_VERIFICATION = "id = $1 AND verification_hash = ANY ($2::bytea[]) AND verification_expires_at > now() AND email_verified_at IS NULL"
IS_VERIFICATION = Query(bool, f"SELECT EXISTS (SELECT FROM accounts WHERE {_VERIFICATION})", unbound=_ACCOUNTS)
_VERIFIED = "UPDATE accounts SET email_verified_at = now(), verification_hash = NULL, verification_expires_at = NULL"
VERIFY_BY_LINK = Command(f"{_VERIFIED} WHERE {_VERIFICATION}", unbound=_ACCOUNTS)
VERIFY_ADDRESS = Command(f"{_VERIFIED} WHERE id = $1 AND email_verified_at IS NULL", unbound=_ACCOUNTS)

# --- links -------------------------------------------------------------------------------------------------

# A link has no number. A part of the digest of its hash names it, and says nothing about its token.
_REFERENCE = "left(encode(sha256(l.token_hash), 'hex'), 16)"


class AddedLink(msgspec.Struct):
    reference: str
    expires_at: datetime


ADD_LINK = Query(
    AddedLink,
    f"""INSERT INTO account_links AS l (token_hash, purpose, email, operator, account_id, expires_at, mail_id, two_factor)
       VALUES ($1, $2, $3, $4, $5, now() + make_interval(hours => $6), $7, $8)
       RETURNING {_REFERENCE} AS reference, l.expires_at""",
    unbound=_ACCOUNTS,
)
FIND_LINK = Query(
    Link,
    """SELECT purpose, email, operator, account_id, two_factor FROM account_links
        WHERE token_hash = ANY ($1::bytea[]) AND expires_at > now()""",
    unbound=_ACCOUNTS,
)
# The statements that end links return the emails that carry them, or 0.
USE_LINK = Query(
    int,
    "DELETE FROM account_links WHERE token_hash = ANY ($1::bytea[]) AND expires_at > now() RETURNING coalesce(mail_id, 0)",
    unbound=_ACCOUNTS,
)
DELETE_LINKS = Query(
    int,
    "DELETE FROM account_links WHERE purpose = $1 AND email = $2 RETURNING coalesce(mail_id, 0)",
    unbound=_ACCOUNTS,
)
# A visitor ends the emailed links that do the same as the new one, and none that an operator printed or that does more.
DELETE_REQUESTED_LINKS = Query(
    int,
    """DELETE FROM account_links WHERE purpose = 'reset' AND email = $1 AND mail_id IS NOT NULL AND NOT two_factor
       RETURNING mail_id""",
    unbound=_ACCOUNTS,
)
REVOKE_ACCOUNT_INVITATION = Query(
    int,
    f"""DELETE FROM account_links l WHERE l.purpose = 'invitation' AND l.expires_at > now() AND {_REFERENCE} = $1
        RETURNING coalesce(l.mail_id, 0)""",
    unbound=_ACCOUNTS,
)
ACCOUNT_INVITATIONS = Query(
    AccountInvitation,
    f"""SELECT {_REFERENCE} AS reference, l.email, l.operator, l.created_at, l.expires_at, m.status AS mail
         FROM account_links l LEFT JOIN mails m ON m.id = l.mail_id
        WHERE l.purpose = 'invitation' AND l.expires_at > now() ORDER BY l.created_at DESC, l.token_hash LIMIT 100""",
    unbound=_ACCOUNTS,
)
# An invitation that was emailed a moment ago: a form that is submitted twice must not send it twice.
MAILED_ACCOUNT_INVITATION = Query(
    datetime,
    """SELECT l.expires_at FROM account_links l JOIN mails m ON m.id = l.mail_id
        WHERE l.purpose = 'invitation' AND l.email = $1 AND l.operator = $2 AND l.expires_at > now()
          AND m.status <> 'failed' AND m.created_at > now() - make_interval(mins => $3) LIMIT 1""",
    unbound=_ACCOUNTS,
)
# Serializes the transactions about one text, such as an email address.
LOCK_TEXT = Query(str, "SELECT pg_advisory_xact_lock(hashtextextended($1, 7306221))::text", unbound=_ACCOUNTS)
# When an address that got so many invitations within a day may get another one; no row if it may now.
NEXT_INVITATION_AT = Query(
    datetime,
    """SELECT created_at + interval '1 day' FROM mails
        WHERE created_at > now() - interval '1 day' AND recipient = $1 AND kind = ANY ($2::text[])
        ORDER BY created_at DESC OFFSET $3 - 1 LIMIT 1""",
    unbound=_ACCOUNTS,
)

ADD_RESET_REQUEST = Command("INSERT INTO reset_requests (email) VALUES ($1)", unbound=_ACCOUNTS)
TAKE_RESET_REQUESTS = Query(
    str,
    """DELETE FROM reset_requests WHERE id IN (SELECT r.id FROM reset_requests r ORDER BY r.id LIMIT $1::integer)
       RETURNING email""",
    unbound=_ACCOUNTS,
)

# --- ownership ---------------------------------------------------------------------------------------------

# The role of a membership `o`, and whether it may change things: a viewer who may is stored as an editor.
ROLE_ON_APP = "CASE WHEN o.role = 'viewer' AND o.editor THEN 'developer' ELSE o.role END"
ROLE_ON_STORE = "CASE WHEN o.role = 'viewer' AND o.editor THEN 'manager' ELSE o.role END"
MAY_CHANGE = "(o.role = 'owner' OR o.editor)"
# What a person owns comes first: on a cluster, the nodes are then asked once for the installations of all of it.
_OWNED_APPS = f"""WITH found AS MATERIALIZED (
         SELECT a.*, {ROLE_ON_APP} AS role FROM account_apps o JOIN apps a ON a.id = o.app_id
          WHERE o.account_id = $1 AND a.status <> 'deleted' {{}}),
     installed AS MATERIALIZED (
         SELECT i.app_id, count(*) AS stores FROM installations i
          WHERE i.app_id IN (SELECT f.id FROM found f) AND i.store_id <> ALL ($3::bigint[]) GROUP BY i.app_id)
SELECT a.id, a.client_id, a.name, a.scopes, a.status, a.role, coalesce(i.stores, 0) AS installations, a.created_at
  FROM found a LEFT JOIN installed i ON i.app_id = a.id ORDER BY a.id DESC"""
_MATCHES = "AND (strpos(lower({0}), $2) > 0 OR strpos(lower({1}), $2) > 0)"  # every row contains an empty term
OWNED_APPS = FanOut(
    OwnedApp,
    _OWNED_APPS.format(f"{_MATCHES.format('a.name', 'a.client_id')} ORDER BY a.id DESC LIMIT 200"),
    figures("installations"),
    unbound=_OWNER,
)
OWNED_APP = FanOut(OwnedApp, _OWNED_APPS.format("AND a.id = $2"), figures("installations"), unbound=_OWNER)
COUNT_APPS = Query(
    int,
    """SELECT count(*) FROM account_apps o JOIN apps a ON a.id = o.app_id
        WHERE o.account_id = $1 AND o.role = 'owner' AND a.status <> 'deleted'""",
    unbound=_OWNER,
)
_OWNED_STORES = f"""WITH found AS MATERIALIZED (
         SELECT s.*, {ROLE_ON_STORE} AS role, o.development FROM account_stores o JOIN stores s ON s.id = o.store_id
          WHERE o.account_id = $1 {{}}),
     installed AS MATERIALIZED (
         SELECT i.store_id, count(*) AS apps FROM installations i
          WHERE i.store_id IN (SELECT f.id FROM found f) AND i.store_id <> ALL ($3::bigint[]) GROUP BY i.store_id)
SELECT s.id, s.handle, s.name, s.currency, s.prices_include_tax, s.timezone,
       CASE WHEN c.store_id IS NULL THEN s.status ELSE 'closed' END AS status, s.role, s.development,
       coalesce(i.apps, 0) AS installations,
       (SELECT count(*) FROM installation_requests r WHERE r.store_id = s.id AND r.status = 'pending') AS requests,
       s.created_at, c.erase_at, s.shard
  FROM found s LEFT JOIN installed i ON i.store_id = s.id LEFT JOIN store_closures c ON c.store_id = s.id
 ORDER BY s.handle"""
OWNED_STORES = FanOut(
    OwnedStore,
    _OWNED_STORES.format(f"{_MATCHES.format('s.name', 's.handle')} ORDER BY s.handle LIMIT 200"),
    figures("installations"),
    unbound=_OWNER,
)
OWNED_STORE = FanOut(OwnedStore, _OWNED_STORES.format("AND s.handle = $2"), figures("installations"), unbound=_OWNER)
COUNT_STORES = Query(
    int,
    "SELECT count(*) FROM account_stores WHERE account_id = $1 AND role = 'owner' AND development = $2",
    unbound=_OWNER,
)
LOCK_ACCOUNT = Query(int, "SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", unbound=_ACCOUNTS)
SET_APP_ROLE = Command(
    """INSERT INTO account_apps (account_id, app_id, role, editor)
       SELECT $1::bigint, $2::bigint, CASE WHEN $3 = 'developer' THEN 'viewer' ELSE $3::text END, $3 = 'developer'
       ON CONFLICT (account_id, app_id) DO UPDATE SET role = excluded.role, editor = excluded.editor""",
    unbound=_OWNER,
)
REMOVE_APP_ROLE = Command("DELETE FROM account_apps WHERE account_id = $1 AND app_id = $2", unbound=_OWNER)
# Every member of a development store has it as a development store. The rows are read by FROM, because Citus writes nothing if
# only a subquery reads a table.
SET_STORE_ROLE = Command(
    """INSERT INTO account_stores (account_id, store_id, role, editor, development)
       SELECT $1::bigint, $2::bigint, CASE WHEN $3 = 'manager' THEN 'viewer' ELSE $3::text END, $3 = 'manager',
              $4::boolean OR coalesce(bool_or(o.development), false)
         FROM account_stores o WHERE o.store_id = $2
       ON CONFLICT (account_id, store_id) DO UPDATE SET role = excluded.role, editor = excluded.editor""",
    unbound=_OWNER,
)
REMOVE_STORE_ROLES = Command("DELETE FROM account_stores WHERE store_id = $1", unbound=_OWNER)
REMOVE_STORE_ROLE = Command("DELETE FROM account_stores WHERE account_id = $1 AND store_id = $2", unbound=_OWNER)


class DevelopmentInstallation(msgspec.Struct):
    """A development store that has the app installed, and the scopes that it grants."""

    handle: str
    scopes: list[str]


IS_DEVELOPMENT_STORE = Query(
    bool, "SELECT EXISTS (SELECT 1 FROM account_stores o WHERE o.store_id = $1 AND o.development)", unbound=_OWNER
)
# $3 names the stores that have left this database.
DEVELOPMENT_INSTALLATIONS = Query(
    DevelopmentInstallation,
    f"""SELECT s.handle, i.scopes FROM account_stores o JOIN stores s ON s.id = o.store_id
              JOIN installations i ON i.store_id = o.store_id AND i.app_id = $2
        WHERE o.account_id = $1 AND {MAY_CHANGE} AND o.development AND o.store_id <> ALL ($3::bigint[]) ORDER BY s.handle""",
    unbound=_OWNER,
    over="shard",
)


class ListingRow(msgspec.Struct):
    homepage: str
    reasons: str


GET_LISTING = Query(ListingRow, "SELECT homepage, reasons FROM app_listings WHERE app_id = $1", unbound=_OWNER)
SAVE_LISTING = Command(
    """INSERT INTO app_listings (app_id, homepage, reasons, registration) VALUES ($1, $2, $3, $4)
       ON CONFLICT (app_id) DO UPDATE SET homepage = excluded.homepage, reasons = excluded.reasons""",
    unbound=_OWNER,
)
DEVELOPERS = Query(
    Developer,
    """SELECT a.name, a.email, a.created_at AS since, a.email_verified_at IS NOT NULL AS verified FROM account_apps o JOIN accounts a ON a.id = o.account_id
        WHERE o.app_id = $1 AND o.role = 'owner' AND a.status = 'active' ORDER BY o.created_at, a.id LIMIT 3""",
    unbound=_OWNER,
)
APP_BY_REGISTRATION = Query(int, "SELECT app_id FROM app_listings WHERE registration = $1", unbound=_OWNER)

# --- install requests --------------------------------------------------------------------------------------

_REQUEST = """SELECT s.handle AS store, s.name AS store_name, a.id AS app_id, a.name AS app_name,
       r.scopes, r.message, r.status, r.created_at
  FROM installation_requests r JOIN stores s ON s.id = r.store_id JOIN apps a ON a.id = r.app_id"""
REQUESTS_OF_STORE = Query(
    InstallRequest, f"{_REQUEST} WHERE r.store_id = $1 AND r.status = 'pending' ORDER BY r.created_at LIMIT 200"
)
REQUESTS_OF_APP = Query(
    InstallRequest, f"{_REQUEST} WHERE r.app_id = $1 ORDER BY r.created_at DESC LIMIT 200", unbound=_OWNER
)
REQUESTS_OF_ACCOUNT = Query(
    InstallRequest,
    f"""{_REQUEST} JOIN account_stores o ON o.store_id = r.store_id
        WHERE o.account_id = $1 AND {MAY_CHANGE} AND r.status = 'pending' ORDER BY r.created_at LIMIT 20""",
    unbound=_OWNER,
)


class RequestState(msgspec.Struct):
    scopes: list[str]
    message: str
    status: str
    decided_recently: bool


LOCK_REQUEST = Query(
    RequestState,
    """SELECT scopes, message, status, coalesce(decided_at > now() - interval '1 day', false) AS decided_recently
         FROM installation_requests WHERE store_id = $1 AND app_id = $2 FOR UPDATE""",
)
SAVE_REQUEST = Command(
    """INSERT INTO installation_requests AS r (store_id, app_id, account_id, scopes, message)
       VALUES ($1, $2, $3, $4, $5)
       ON CONFLICT (store_id, app_id) DO UPDATE SET account_id = excluded.account_id, scopes = excluded.scopes,
           message = excluded.message, status = 'pending', created_at = excluded.created_at, decided_at = NULL"""
)
REFUSE_REQUEST = Command(
    """UPDATE installation_requests SET status = 'refused', decided_at = now()
        WHERE store_id = $1 AND app_id = $2 AND status = 'pending'"""
)
DELETE_REQUEST = Command("DELETE FROM installation_requests WHERE store_id = $1 AND app_id = $2")
DELETE_ANSWERED_REQUEST = Command(
    "DELETE FROM installation_requests WHERE store_id = $1 AND app_id = $2 AND created_at <= $3"
)

# --- announcements -----------------------------------------------------------------------------------------

ANNOUNCEMENTS = Query(
    Announcement,
    "SELECT id, text, starts_at, ends_at, link_url, link_label FROM announcements ORDER BY id DESC LIMIT 50",
    unbound=_ACCOUNTS,
)
CURRENT_ANNOUNCEMENTS = Query(
    CurrentAnnouncement,
    """SELECT a.id, a.text, a.starts_at, d.account_id IS NOT NULL AS dismissed, a.link_url, a.link_label
         FROM announcements a LEFT JOIN announcement_dismissals d ON d.announcement_id = a.id AND d.account_id = $1
        WHERE a.starts_at <= now() AND a.ends_at > now() ORDER BY a.starts_at DESC, a.id DESC LIMIT 20""",
    unbound=_ACCOUNTS,
)
ADD_ANNOUNCEMENT = Query(
    int,
    """INSERT INTO announcements (text, starts_at, ends_at, link_url, link_label) VALUES ($1, $2, $3, $4, $5)
       RETURNING id""",
    unbound=_ACCOUNTS,
)
SAME_ANNOUNCEMENT = Query(
    int,
    """SELECT id FROM announcements WHERE text = $1 AND starts_at = $2 AND ends_at = $3
          AND link_url IS NOT DISTINCT FROM $4 AND link_label IS NOT DISTINCT FROM $5 LIMIT 1""",
    unbound=_ACCOUNTS,
)
END_ANNOUNCEMENT = Command(
    "UPDATE announcements SET ends_at = now(), starts_at = least(starts_at, now()) WHERE id = $1 AND ends_at > now()",
    unbound=_ACCOUNTS,
)
DISMISS_ANNOUNCEMENT = Command(
    """INSERT INTO announcement_dismissals (account_id, announcement_id) SELECT $1, a.id FROM announcements a WHERE a.id = $2
           ON CONFLICT (account_id, announcement_id) DO NOTHING""",
    unbound=_ACCOUNTS,
)

# --- forms of store pages ----------------------------------------------------------------------------------------

CLAIM_FORM = Command(
    """INSERT INTO submitted_forms (store_id, account_id, key, fingerprint) VALUES ($1, $2, $3, $4)
       ON CONFLICT (store_id, account_id, key) DO NOTHING"""
)
CLAIMED_FORM = Query(
    bytes, "SELECT fingerprint FROM submitted_forms WHERE store_id = $1 AND account_id = $2 AND key = $3"
)

# --- maintenance ------------------------------------------------------------------------------------------

FORGET_OLD_RESULTS = Command(
    """DELETE FROM account_results WHERE result_hash IN (
           SELECT result_hash FROM account_results WHERE expires_at < now() LIMIT 1000)""",
    unbound=_CHORE,
)
FORGET_OLD_FORMS = Command(
    """DELETE FROM submitted_forms WHERE (store_id, account_id, key) IN (
           SELECT store_id, account_id, key FROM submitted_forms
            WHERE created_at < now() - interval '1 day' LIMIT 1000)""",
    unbound=_CHORE,
    over="shard",
)
FORGET_OLD_LINKS = Command(
    """DELETE FROM account_links WHERE token_hash IN (
           SELECT token_hash FROM account_links WHERE expires_at < now() LIMIT 1000)""",
    unbound=_CHORE,
)
FORGET_OLD_RESET_REQUESTS = Command(
    "DELETE FROM reset_requests WHERE created_at < now() - interval '1 hour'", unbound=_CHORE
)
DELETE_OLD_ANNOUNCEMENTS = Command(
    "DELETE FROM announcements WHERE ends_at < now() - interval '90 days'", unbound=_CHORE
)
