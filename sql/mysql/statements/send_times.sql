-- Send times of queues with rates (src/core/gates/send_times.h).

-- name: rates_lock
-- Creates what is missing, and locks all. :rows in the order of the key, so that two instances wait for each other
-- in turn.
INSERT INTO rung_rates (queue, length, value, value_length, used_at) VALUES :rows
ON DUPLICATE KEY UPDATE next_us = next_us

-- name: rates
SELECT queue, value, next_us, UTC_TIMESTAMP(3) FROM rung_rates WHERE :which FOR UPDATE

-- name: rates_of
(queue = :queue AND length = CHAR_LENGTH(:queue) AND value IN (:values))

-- name: rates_write
INSERT INTO rung_rates (queue, length, value, value_length, used_at, next_us) VALUES :rows
ON DUPLICATE KEY UPDATE used_at = VALUES(used_at), next_us = VALUES(next_us)

-- name: length_of
CHAR_LENGTH(:text)

-- name: time_now
UTC_TIMESTAMP(3)

-- name: rates_forget
-- Their next send time has passed: the same as none.
DELETE FROM rung_rates WHERE used_at < :before AND next_us < :before_us LIMIT :most

-- name: rule_headers
SELECT id, rule_headers FROM rung_tasks WHERE id IN (:ids)
