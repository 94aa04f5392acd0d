-- Whether an instance can publish, written with its heartbeat: 0 not for longer than a lease, 1 it can, 2 its connection
-- has just been interrupted. One that cannot, while another can, gives its shards up and gets none. ADD is taken for
-- done where the column is there already.
ALTER TABLE rung_nodes ADD COLUMN broker_link TINYINT NOT NULL DEFAULT 1;
