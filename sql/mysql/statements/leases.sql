-- Nodes and the leases of shards. The clock is the database's. A write that depends on a lease locks its row
-- (`leases_held.share`), and the lease cannot be taken over (`leases_take`) before that lock is released.

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
  broker_link = :broker_link, config = :config, beats = beats + 1
WHERE id = :node AND incarnation = :incarnation

-- name: node_leave
-- seen_at is not before expires_at: this is how `rung nodes` distinguishes a node that left from one that
-- died.
UPDATE rung_nodes SET seen_at = UTC_TIMESTAMP(3), expires_at = UTC_TIMESTAMP(3)
WHERE id = :node AND incarnation = :incarnation

-- name: node_incarnation
-- Locks the row: a process that takes the name waits, and then takes over the shards that this one took.
SELECT id FROM rung_nodes WHERE id = :node AND incarnation = :incarnation LOCK IN SHARE MODE

-- name: nodes
SELECT id, name, started_at, seen_at, expires_at, version, address, problems, broker_link, config, beats, UTC_TIMESTAMP(3)
FROM rung_nodes WHERE :which ORDER BY id

-- name: nodes.live_or
id = :node OR expires_at > UTC_TIMESTAMP(3)

-- name: shards
SELECT s.id, COALESCE(s.owner, 0), s.epoch, s.expires_at, s.acquired_at, COALESCE(n.name, ''), s.taken_over_at FROM rung_shards s
LEFT JOIN rung_nodes n ON n.id = s.owner ORDER BY s.id

-- name: leases_held
SELECT id, epoch FROM rung_shards
WHERE id IN (:shards) AND owner = :node AND expires_at > UTC_TIMESTAMP(3) ORDER BY id

-- name: leases_held.share
LOCK IN SHARE MODE

-- name: leases_guard
-- Locks like leases_held.share, but what follows in the same packet runs only if all :count of :leases are held; see
-- expect_rows.
SELECT IF((SELECT COUNT(*) FROM (
  SELECT id FROM rung_shards WHERE id IN (:shards) AND (id, epoch) IN (:leases) AND owner = :node
    AND expires_at > UTC_TIMESTAMP(3) ORDER BY id LOCK IN SHARE MODE) held) = :count, 1, (SELECT 1 UNION SELECT 2))

-- name: leases_standing
SELECT id, epoch FROM rung_shards WHERE owner IS NOT NULL AND expires_at > UTC_TIMESTAMP(3)

-- name: leases_free
-- Skips a shard with an open write (`leases_held.share`) until that has ended. If it waited, one transaction left
-- open would block the takeover of all other shards.
SELECT id, epoch FROM rung_shards
WHERE id IN (:shards) AND (owner IS NULL OR owner = :node OR expires_at <= UTC_TIMESTAMP(3)) ORDER BY id
FOR UPDATE SKIP LOCKED

-- name: leases_take
UPDATE rung_shards SET taken_over_at = IF(owner <> :node, UTC_TIMESTAMP(3), taken_over_at),
  owner = :node, epoch = GREATEST(epoch, :above) + 1, acquired_at = UTC_TIMESTAMP(3),
  expires_at = TIMESTAMPADD(MICROSECOND, :ttl_us, UTC_TIMESTAMP(3))
WHERE id IN (:shards)

-- name: leases_renew
-- Needs no transaction. If it matches fewer rows than :leases, the caller reads with leases_held, FOR UPDATE, which are held.
UPDATE rung_shards SET expires_at = TIMESTAMPADD(MICROSECOND, :ttl_us, UTC_TIMESTAMP(3))
WHERE id IN (:shards) AND (id, epoch) IN (:leases) AND owner = :node AND expires_at > UTC_TIMESTAMP(3)

-- name: leases_of
SELECT id, epoch FROM rung_shards WHERE owner = :node ORDER BY id

-- name: leases_release
UPDATE rung_shards SET owner = NULL, expires_at = NULL WHERE id IN (:shards) AND owner = :node

-- name: shards_overdue
-- For `rung nodes`: counts one range of by_shard per shard, which contains only due tasks, and subtracts the
-- claimed ones, which are few.
SELECT d.shard, d.tasks - COALESCE(p.tasks, 0), d.oldest
FROM (SELECT shard, COUNT(*) AS tasks, MIN(next_at) AS oldest FROM rung_tasks FORCE INDEX (by_shard)
      WHERE stage = 1 AND shard IN (:shards) AND next_at <= UTC_TIMESTAMP(3) GROUP BY shard) d
LEFT JOIN (SELECT shard, COUNT(*) AS tasks FROM rung_tasks FORCE INDEX (by_due)
           WHERE state = 'publishing' AND next_due_at <= UTC_TIMESTAMP(3) GROUP BY shard) p ON p.shard = d.shard
WHERE d.tasks > COALESCE(p.tasks, 0) ORDER BY d.shard
