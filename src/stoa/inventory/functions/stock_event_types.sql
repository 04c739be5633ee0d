-- The events that a change of a variant's available stock causes, in the order in which they are emitted.
CREATE FUNCTION stock_event_types(in_tracked boolean, in_threshold integer, in_before bigint, in_after bigint)
RETURNS TABLE (n integer, type text) LANGUAGE sql IMMUTABLE ROWS 1 AS $$
    SELECT e.n, e.type
      FROM (VALUES (1, 'product.inventory_changed', true),
                   (2, 'product.low_stock', in_tracked AND in_before > in_threshold AND in_after <= in_threshold),
                   (3, 'product.out_of_stock', in_tracked AND in_before > 0 AND in_after <= 0),
                   (4, 'product.back_in_stock', in_tracked AND in_before <= 0 AND in_after > 0)) AS e (n, type, happens)
     WHERE e.happens
$$;
