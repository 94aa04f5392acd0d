-- When the shard was last taken from an owner that had not given it back: what that owner left in `publishing` waits from
-- then on until its connection must be dead, also if the new owner restarts or gives the shard on.
ALTER TABLE rung_shards ADD COLUMN taken_over_at DATETIME(3) NULL;
