-- Pauses of queues by hand: 0012_pauses.sql.

-- name: pauses
-- Those in force, and those that are over. Sidecars read them twice a second: a row for each queue paused
-- within the last month.
SELECT queue, since, until, who, reason, resumed_by, until IS NOT NULL AND until <= UTC_TIMESTAMP(3) FROM rung_pauses

-- name: pause_lock
SELECT queue, since, until, who, reason, resumed_by, until IS NOT NULL AND until <= UTC_TIMESTAMP(3) FROM rung_pauses
WHERE queue = :queue AND length = CHAR_LENGTH(:queue) FOR UPDATE

-- name: pause_write
INSERT INTO rung_pauses (queue, length, since, until, who, reason)
VALUES (:queue, CHAR_LENGTH(:queue), :since, :until, :who, :reason)
ON DUPLICATE KEY UPDATE since = VALUES(since), until = VALUES(until), who = VALUES(who), reason = VALUES(reason),
  resumed_by = ''

-- name: pause_end
UPDATE rung_pauses SET until = :until, resumed_by = :who WHERE queue = :queue AND length = CHAR_LENGTH(:queue)

-- name: pauses_forget
DELETE FROM rung_pauses WHERE until < :before

-- name: queue_gates
SELECT queue, state, since, until, reason, `by`, waiting, next_at FROM retry_queues ORDER BY queue
