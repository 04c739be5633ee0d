-- Where an erasure finds whose orders they once were: entries of a timeline that tell of another contact than before.
CREATE INDEX order_comments_contact_idx ON order_comments (store_id, order_id) WHERE type = 'edit' AND changes LIKE '%"contact":%';
