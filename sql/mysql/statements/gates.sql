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

-- name: gate_states
-- Sidecars read them twice a second, if a queue in their config has a gate.
SELECT queue, breaker, breaker_since, breaker_until, breaker_reason, breaker_detail, hold_since, hold_until, hold_by,
  outside_since, outside_until, outside_reason, limited_since, limited_until, limited_reason, seen_at
FROM rung_gates

-- name: gate_lock
SELECT queue, breaker, breaker_since, breaker_until, breaker_reason, breaker_detail, hold_since, hold_until, hold_by,
  outside_since, outside_until, outside_reason, limited_since, limited_until, limited_reason, seen_at
FROM rung_gates WHERE queue = :queue AND length = CHAR_LENGTH(:queue) FOR UPDATE

-- name: gate_create
-- If gate_lock finds no row. It then runs again: another instance may have created the row, and changed it.
INSERT IGNORE INTO rung_gates (queue, length, breaker_reason, breaker_detail, permits, seen_at)
VALUES (:queue, CHAR_LENGTH(:queue), '', '', '', UTC_TIMESTAMP(3))

-- name: gate_write
UPDATE rung_gates SET breaker = :breaker, breaker_since = :breaker_since, breaker_until = :breaker_until,
  breaker_reason = :breaker_reason, breaker_detail = :breaker_detail, hold_since = :hold_since,
  hold_until = :hold_until, hold_by = :hold_by, outside_since = :outside_since, outside_until = :outside_until,
  outside_reason = :outside_reason, limited_since = :limited_since, limited_until = :limited_until,
  limited_reason = :limited_reason, seen_at = :seen_at
WHERE queue = :queue AND length = CHAR_LENGTH(:queue)

-- name: gates_forget
-- As a queue is by default, or no longer in use.
DELETE FROM rung_gates WHERE seen_at < :before AND breaker = 'closed' AND (hold_until IS NULL OR hold_until < :before)
  AND (limited_until IS NULL OR limited_until < :before) AND (outside_until IS NULL OR outside_until < :before) LIMIT 1000

-- name: queue_gates
SELECT queue, state, since, until, reason, `by`, waiting, next_at FROM retry_queues ORDER BY queue
