-- The same form as ids.py makes: 15 random bytes are 20 letters of base64, and two of those share one of our 32.
CREATE OR REPLACE FUNCTION new_event_id() RETURNS text LANGUAGE sql VOLATILE PARALLEL SAFE RETURN
    'evt_' || translate(encode(substring(uuid_send(gen_random_uuid()) FROM 2), 'base64'),
                        'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/',
                        '0123456789abcdefghjkmnpqrstvwxyz0123456789abcdefghjkmnpqrstvwxyz');
