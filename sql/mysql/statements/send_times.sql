-- Send times of queues with rates or a limit in flight (src/core/gates/send_times.h).

-- name: rates_lock
-- Creates what is missing, and locks all. :rows in the order of the key, so that two instances wait for each other
-- in turn.
INSERT INTO rung_rates (queue, length, value, value_length, used_at) VALUES :rows
ON DUPLICATE KEY UPDATE next_us = next_us

-- name: rates
SELECT queue, value, next_us, reserved, UTC_TIMESTAMP(3) FROM rung_rates WHERE :which FOR UPDATE

-- name: rates_of
(queue = :queue AND length = CHAR_LENGTH(:queue) AND value IN (:values))

-- name: rates_write
INSERT INTO rung_rates (queue, length, value, value_length, used_at, next_us, reserved) VALUES :rows
ON DUPLICATE KEY UPDATE used_at = VALUES(used_at), next_us = VALUES(next_us), reserved = VALUES(reserved)

-- name: length_of
CHAR_LENGTH(:text)

-- name: time_now
UTC_TIMESTAMP(3)

-- name: rates_forget
-- Their next send time has passed: the same as none.
DELETE FROM rung_rates WHERE used_at < :before AND next_us < :before_us LIMIT :most

-- name: rates_scheduled
-- The tasks that may be claimed within a limit in flight. Read before gate_in_flight: one that is claimed meanwhile
-- counts twice rather than not at all.
SELECT id, queue, attempt FROM rung_tasks WHERE id IN (:ids) AND state = 'scheduled'

-- name: gate_in_flight
-- Waiting for an answer: next_due_at is NULL, so by_due finds them by queue; without an end of silence (next_at) it
-- is held open, and they are not in flight any more. Being published: few; epoch 0: refused,
-- waits to be claimed again.
-- Counts no further than needed.
SELECT (SELECT COUNT(*) FROM (
          SELECT 1 FROM rung_tasks FORCE INDEX (by_due)
          WHERE state = 'awaiting' AND next_due_at IS NULL AND next_at IS NOT NULL AND queue = :queue AND CHAR_LENGTH(queue) = CHAR_LENGTH(:queue)
          LIMIT :most) a)
     + (SELECT COUNT(*) FROM (
          SELECT 1 FROM rung_tasks FORCE INDEX (by_due)
          WHERE state = 'publishing' AND epoch > 0 AND queue = :queue AND CHAR_LENGTH(queue) = CHAR_LENGTH(:queue)
          LIMIT :most) p)

-- name: rule_headers
SELECT id, rule_headers FROM rung_tasks WHERE id IN (:ids)
