-- Whether an instance can publish, written with its heartbeat: 0 not for longer than a lease, 1 yes, 2 its
-- connection has just been interrupted. An instance that cannot, while another can, releases its shards and
-- gets none. ADD counts as done if the column already exists.
ALTER TABLE rung_nodes ADD COLUMN broker_link TINYINT NOT NULL DEFAULT 1;
