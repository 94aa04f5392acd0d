-- Nodes and the leases of shards. The clock is the database's. A write that leans on a lease locks its row
-- (`leases_share`), and nobody takes the lease over (`leases_take`) before that lock is gone.

-- name: node_by_name
SELECT id FROM rung_nodes WHERE name = :name FOR UPDATE

-- name: node_insert
INSERT INTO rung_nodes (name, incarnation, started_at, seen_at, expires_at, version, address)
VALUES (:name, :incarnation, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3),
        TIMESTAMPADD(MICROSECOND, :ttl_us, UTC_TIMESTAMP(3)), :version, :address)

-- name: node_retake
UPDATE rung_nodes SET incarnation = :incarnation, started_at = UTC_TIMESTAMP(3), seen_at = UTC_TIMESTAMP(3),
  expires_at = TIMESTAMPADD(MICROSECOND, :ttl_us, UTC_TIMESTAMP(3)), version = :version, address = :address, problems = NULL,
  broker_link = 1, beats = beats + 1
WHERE id = :node

-- name: node_beat
UPDATE rung_nodes SET seen_at = UTC_TIMESTAMP(3),
  expires_at = TIMESTAMPADD(MICROSECOND, :ttl_us, UTC_TIMESTAMP(3)), problems = :problems,
  broker_link = :broker_link, beats = beats + 1
WHERE id = :node AND incarnation = :incarnation

-- name: node_beats
SELECT name, beats FROM rung_nodes WHERE id = :node

-- name: node_leave
-- Not seen after its own end: that is how `rung nodes` tells who left from who died.
UPDATE rung_nodes SET seen_at = UTC_TIMESTAMP(3), expires_at = UTC_TIMESTAMP(3)
WHERE id = :node AND incarnation = :incarnation

-- name: node_incarnation
-- Locked: a process that takes the name waits, and then takes what this one has taken.
SELECT id FROM rung_nodes WHERE id = :node AND incarnation = :incarnation LOCK IN SHARE MODE

-- name: nodes_live
SELECT id, name, started_at, seen_at, expires_at, version, address, problems, broker_link FROM rung_nodes
WHERE expires_at > UTC_TIMESTAMP(3) ORDER BY id

-- name: nodes
SELECT id, name, started_at, seen_at, expires_at, version, address, problems, broker_link FROM rung_nodes ORDER BY id

-- name: shards
SELECT id, COALESCE(owner, 0), epoch, expires_at, acquired_at FROM rung_shards ORDER BY id

-- name: leases_share
-- The time is that of the statement's beginning: not after any lock was waited for, so never ahead.
SELECT id, epoch, UTC_TIMESTAMP(3) FROM rung_shards
WHERE id IN (:shards) AND owner = :node AND expires_at > UTC_TIMESTAMP(3) ORDER BY id LOCK IN SHARE MODE

-- name: leases_own
SELECT id, epoch FROM rung_shards
WHERE id IN (:shards) AND owner = :node AND expires_at > UTC_TIMESTAMP(3) ORDER BY id FOR UPDATE

-- name: leases_standing
SELECT id, epoch FROM rung_shards WHERE owner IS NOT NULL AND expires_at > UTC_TIMESTAMP(3)

-- name: leases_free
-- A shard in which a write is open (`leases_share`) is passed over: its turn comes when that has ended. Waited for, one
-- transaction that somebody left open would keep all the others from being taken over.
SELECT id, epoch FROM rung_shards
WHERE id IN (:shards) AND (owner IS NULL OR owner = :node OR expires_at <= UTC_TIMESTAMP(3)) ORDER BY id
FOR UPDATE SKIP LOCKED

-- name: leases_take
UPDATE rung_shards SET owner = :node, epoch = GREATEST(epoch, :above) + 1, acquired_at = UTC_TIMESTAMP(3),
  expires_at = TIMESTAMPADD(MICROSECOND, :ttl_us, UTC_TIMESTAMP(3))
WHERE id IN (:shards)

-- name: leases_renew
UPDATE rung_shards SET expires_at = TIMESTAMPADD(MICROSECOND, :ttl_us, UTC_TIMESTAMP(3)) WHERE id IN (:shards)

-- name: leases_of
SELECT id FROM rung_shards WHERE owner = :node ORDER BY id

-- name: leases_leave
UPDATE rung_shards SET owner = NULL, expires_at = NULL WHERE id IN (:shards) AND owner = :node

-- name: leases_release
UPDATE rung_shards SET owner = NULL, expires_at = NULL WHERE id IN (:shards)

-- name: shards_overdue
-- `rung nodes`: a range of by_shard for each shard, which holds nothing but what is due, and is all that is read of it; less
-- what is claimed of that, which is little.
SELECT d.shard, d.tasks - COALESCE(p.tasks, 0), d.oldest
FROM (SELECT shard, COUNT(*) AS tasks, MIN(next_at) AS oldest FROM rung_tasks FORCE INDEX (by_shard)
      WHERE stage = 1 AND shard IN (:shards) AND next_at <= UTC_TIMESTAMP(3) GROUP BY shard) d
LEFT JOIN (SELECT shard, COUNT(*) AS tasks FROM rung_tasks FORCE INDEX (by_due)
           WHERE state = 'publishing' AND next_due_at <= UTC_TIMESTAMP(3) GROUP BY shard) p ON p.shard = d.shard
WHERE d.tasks > COALESCE(p.tasks, 0) ORDER BY d.shard
