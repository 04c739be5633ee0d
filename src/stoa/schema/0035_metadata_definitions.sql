-- The metadata definitions of a merchant and of an app, as JSON. A request reads them with the installation of its app.
ALTER TABLE stores ADD COLUMN metadata_definitions text NOT NULL DEFAULT '[]';
ALTER TABLE apps ADD COLUMN metadata_definitions text NOT NULL DEFAULT '[]';
