-- Notes a picture before its file is written, outside any transaction of a request, so it enters the store by itself.
CREATE FUNCTION claim_file(
    in_store_id bigint, in_name text, in_width integer, in_height integer, in_bytes bigint, in_widths integer[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM enter_store(in_store_id);
    INSERT INTO media_files (store_id, name, width, height, bytes, widths)
    VALUES (in_store_id, in_name, in_width, in_height, in_bytes, in_widths)
        ON CONFLICT (store_id, name) DO UPDATE SET unreferenced_since = excluded.unreferenced_since;
END $$;
