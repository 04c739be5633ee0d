-- The format of ids.py: 15 random bytes give 20 base64 characters, and two of those map to each of the 32 characters of an id.
CREATE OR REPLACE FUNCTION new_event_id() RETURNS text LANGUAGE sql VOLATILE PARALLEL SAFE RETURN
    'evt_' || translate(encode(substring(uuid_send(gen_random_uuid()) FROM 2), 'base64'),
                        'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/',
                        '0123456789abcdefghjkmnpqrstvwxyz0123456789abcdefghjkmnpqrstvwxyz');
