"""Stoa on a Citus cluster: distributes a migrated database over the nodes, and shows what lives where."""
