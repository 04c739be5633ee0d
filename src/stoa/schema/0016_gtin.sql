ALTER TABLE variants ADD COLUMN gtin text;
