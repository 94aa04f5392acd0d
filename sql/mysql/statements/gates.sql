-- Pauses of queues by hand.

-- name: pauses
-- Those in force, and those that are over: a row for each queue paused within the last month. Sidecars read twice a
-- second what has changed, and all of them twice a minute.
SELECT queue, since, until, who, reason, resumed_by, until IS NOT NULL AND until <= UTC_TIMESTAMP(3) FROM rung_pauses

-- name: pauses.lock
WHERE queue = :queue AND length = CHAR_LENGTH(:queue) FOR UPDATE

-- name: pause_write
REPLACE INTO rung_pauses (queue, length, since, until, who, reason, resumed_by)
VALUES (:queue, CHAR_LENGTH(:queue), :since, :until, :who, :reason, :resumed_by)

-- name: pauses_forget
DELETE FROM rung_pauses WHERE until < :before

-- name: gate_states
-- As pauses, if a queue in their config has a gate.
SELECT queue, breaker, breaker_since, breaker_until, breaker_reason, breaker_detail, hold_since, hold_until, hold_by,
  outside_since, outside_until, outside_reason, limited_since, limited_until, limited_reason, seen_at
FROM rung_gates

-- name: gates.changed
-- Of pauses and of gate_states.
WHERE changed_at >= :since

-- name: gate_states.lock
-- Also those that differ from one of them in blanks at the end: the collation does not tell them apart.
FORCE INDEX (PRIMARY) WHERE queue IN (:queues) ORDER BY queue, length FOR UPDATE

-- name: gates_create
-- For those that gate_states.lock does not find. It then runs again: another instance may have created a row, and changed it.
INSERT IGNORE INTO rung_gates (queue, length, breaker_reason, breaker_detail, seen_at) VALUES :rows

-- name: gates_write
REPLACE INTO rung_gates (queue, length, breaker, breaker_since, breaker_until, breaker_reason, breaker_detail,
  hold_since, hold_until, hold_by, outside_since, outside_until, outside_reason, limited_since, limited_until,
  limited_reason, seen_at) VALUES :rows

-- name: hold_end
-- Not the whole row: what this program cannot read of it stays as it is.
UPDATE rung_gates SET hold_until = :until WHERE queue = :queue AND length = CHAR_LENGTH(:queue)

-- name: gates_forget
-- As a queue is by default, or no longer in use.
DELETE FROM rung_gates WHERE seen_at < :before AND breaker = 'closed' AND (hold_until IS NULL OR hold_until < :before)
  AND (limited_until IS NULL OR limited_until < :before) AND (outside_until IS NULL OR outside_until < :before) LIMIT :limit

-- name: rule_headers
SELECT id, rule_headers FROM rung_tasks WHERE id IN (:ids)

-- name: queue_key
:queue, CHAR_LENGTH(:queue)
