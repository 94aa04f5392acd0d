-- Promises of lateness and activity, added in the same transaction.
-- name: batch_lock
-- An instance has one batch under way: its latest is all that may be repeated after a lost answer.
SELECT batch FROM rung_batches WHERE kind = :kind AND maker = :maker FOR UPDATE

-- name: batch_write
REPLACE INTO rung_batches (kind, maker, batch, at) VALUES (:kind, :maker, :id, UTC_TIMESTAMP(3))

-- name: batches_forget
DELETE FROM rung_batches WHERE at < :before

-- name: promises_add
INSERT INTO rung_promises (queue, length, minutes, since, in_time, late, gated) VALUES :rows
ON DUPLICATE KEY UPDATE in_time = in_time + VALUES(in_time), late = late + VALUES(late), gated = gated + VALUES(gated)

-- name: promises
SELECT queue, minutes, CAST(SUM(in_time) AS SIGNED), CAST(SUM(late) AS SIGNED), CAST(SUM(gated) AS SIGNED)
FROM rung_promises
WHERE (minutes = 5 AND since > UTC_TIMESTAMP(3) - INTERVAL 1 HOUR)
   OR (minutes = 60 AND since > UTC_TIMESTAMP(3) - INTERVAL 1 DAY)
GROUP BY queue, length, minutes
ORDER BY queue, length, minutes

-- name: promises_forget
DELETE FROM rung_promises WHERE minutes = :minutes AND since <= :before LIMIT :limit

-- name: activity_add
INSERT INTO rung_activity (queue, length, minute, failed, retried, succeeded) VALUES :rows
ON DUPLICATE KEY UPDATE failed = failed + VALUES(failed), retried = retried + VALUES(retried),
  succeeded = succeeded + VALUES(succeeded)

-- name: activity
-- slot: since 1970, by the database's time, which is UTC.
SELECT TIMESTAMPDIFF(MINUTE, '1970-01-01', minute) DIV :step AS slot,
       CAST(SUM(failed) AS SIGNED), CAST(SUM(retried) AS SIGNED), CAST(SUM(succeeded) AS SIGNED)
FROM rung_activity
WHERE queue = :queue AND length = CHAR_LENGTH(:queue) AND minute >= :from AND minute < :until
GROUP BY slot
ORDER BY slot

-- name: activity_forget
DELETE FROM rung_activity WHERE minute <= :before LIMIT :limit
