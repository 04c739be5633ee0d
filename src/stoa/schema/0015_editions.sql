-- The edition of each stored document. A release that does not know it leaves 1, with which a document is completed when it is
-- read; that is right for every document.
ALTER TABLE products ADD COLUMN edition smallint DEFAULT 1 NOT NULL;
ALTER TABLE variants ADD COLUMN edition smallint DEFAULT 1 NOT NULL;
ALTER TABLE customers ADD COLUMN edition smallint DEFAULT 1 NOT NULL;
ALTER TABLE orders ADD COLUMN edition smallint DEFAULT 1 NOT NULL;
