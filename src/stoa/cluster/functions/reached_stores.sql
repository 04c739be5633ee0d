-- Over all stores: workers look for work while a node is away.
-- The stores that have rows of a table under a condition, on the nodes that can be reached, at most 1,000 of each. A SELECT over
-- all nodes fails if one of them is away; this asks each node on a connection of its own, and leaves out those that do not answer.
CREATE FUNCTION reached_stores(in_table text, in_condition text) RETURNS bigint[]
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    hosts    text[];
    ports    integer[];
    commands text[];
BEGIN
    SELECT array_agg(n.host), array_agg(n.port), array_agg(format(
               'SELECT coalesce(array_agg(store_id), ''{}'') FROM (SELECT DISTINCT store_id FROM (%s) t LIMIT 1000) s', n.shards))
      INTO hosts, ports, commands
      FROM (SELECT d.nodename AS host, d.nodeport AS port,
                   string_agg(format('SELECT store_id FROM %s WHERE %s', shard_name(s.logicalrelid, s.shardid), in_condition),
                              ' UNION ALL ') AS shards
              FROM pg_dist_shard s JOIN pg_dist_placement p ON p.shardid = s.shardid
                   JOIN pg_dist_node d ON d.groupid = p.groupid AND d.noderole = 'primary'
             WHERE s.logicalrelid = in_table::regclass
             GROUP BY 1, 2) n;
    RETURN ARRAY(SELECT unnest(r.result::bigint[]) FROM master_run_on_worker(hosts, ports, commands, true) r WHERE r.success);
END $$;
