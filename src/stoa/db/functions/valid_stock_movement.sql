-- What must be true of a row of stock_movements; valid_order says why it is a function.
CREATE OR REPLACE FUNCTION valid_stock_movement(kind text, reason text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN kind IN ('set', 'adjust', 'transfer', 'reserve', 'release', 'commit', 'restock', 'import')
       AND reason IN ('restock', 'correction', 'stocktake', 'damaged', 'lost', 'return', 'sync', 'order', 'other');
END $$;
