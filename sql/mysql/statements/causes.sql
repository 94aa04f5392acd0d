-- Causes of failures.

-- name: cause_new
-- Matches no row if another process was first.
INSERT IGNORE INTO rung_causes (cause_id, queue, error_type, sample, first_seen, last_seen) VALUES :rows

-- name: cause_changes_write
INSERT INTO rung_cause_changes (cause_id, at, scheduled, parked, succeeded, total, failures) VALUES :rows

-- name: cause_changes
-- SKIP LOCKED: does not wait for transactions that are adding rows.
SELECT d.id, d.cause_id, d.at, d.scheduled, d.parked, d.succeeded, d.total, d.failures,
  (SELECT c.state FROM rung_causes c WHERE c.cause_id = d.cause_id)
FROM rung_cause_changes d ORDER BY d.id LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: cause_changes_delete
DELETE FROM rung_cause_changes WHERE id IN (:ids)

-- name: causes_fold
-- All rows exist: causes_forget keeps those of which a change is left.
INSERT INTO rung_causes (cause_id, queue, error_type, sample, first_seen, last_seen, scheduled, parked, succeeded,
  total)
VALUES :rows
ON DUPLICATE KEY UPDATE scheduled = scheduled + VALUES(scheduled), parked = parked + VALUES(parked),
  succeeded = succeeded + VALUES(succeeded), total = total + VALUES(total),
  last_seen = GREATEST(last_seen, VALUES(last_seen))

-- name: cause_rates_fold
INSERT INTO rung_cause_rates (cause_id, since, failures) VALUES :rows
ON DUPLICATE KEY UPDATE failures = failures + VALUES(failures)

-- name: causes_worse
SELECT c.cause_id FROM rung_causes c
WHERE c.state = 'ignored' AND c.cause_id IN (:causes) AND
  (SELECT COALESCE(SUM(r.failures), 0) FROM rung_cause_rates r
   WHERE r.cause_id = c.cause_id AND r.since > UTC_TIMESTAMP(3) - INTERVAL 1 HOUR) >= :times * GREATEST(c.ignored_rate, 1)

-- name: causes_reopen
UPDATE rung_causes
SET worse_at = IF(state = 'ignored', UTC_TIMESTAMP(3), NULL), state = IF(state = 'ignored', 'new', 'regressed')
WHERE cause_id IN (:causes) AND state IN ('ignored', 'resolved')

-- name: causes_resolve
UPDATE rung_causes SET state = 'resolved', worse_at = NULL
WHERE cause_id IN (:causes) AND scheduled + parked = 0 AND state NOT IN ('ignored', 'resolved')

-- name: cause_rates_forget
DELETE FROM rung_cause_rates WHERE since < UTC_TIMESTAMP(3) - INTERVAL 1 DAY LIMIT 1000

-- name: cause_ids
SELECT cause_id, queue FROM rung_causes
WHERE scheduled <> 0 OR parked <> 0 OR succeeded <> 0 OR last_seen > UTC_TIMESTAMP(3) - INTERVAL :kept_s SECOND

-- name: causes
SELECT t.cause_id, t.queue, t.error_type, t.sample, t.first_seen, t.last_seen, t.scheduled, t.parked, t.succeeded, t.total,
  t.last_hour, t.state, t.owner, t.note, t.link, t.worse_at
FROM retry_causes t WHERE TRUE

-- name: cause_trends
-- `age`: 0 is the bucket that is being filled. All of the hour's are younger than 12 (kCauseBuckets).
SELECT cause_id, TIMESTAMPDIFF(MINUTE, since, UTC_TIMESTAMP(3)) DIV 5 AS age, failures
FROM rung_cause_rates FORCE INDEX (PRIMARY)
WHERE cause_id IN (:causes) AND since > UTC_TIMESTAMP(3) - INTERVAL 1 HOUR

-- name: causes.with_tasks
AND t.scheduled + t.parked > 0

-- name: causes.end
ORDER BY t.state = 'regressed' DESC, t.scheduled + t.parked DESC, t.last_seen DESC, t.cause_id LIMIT :limit OFFSET :offset

-- name: cause_totals
SELECT state, COUNT(*), COUNT(worse_at) FROM rung_causes GROUP BY state

-- name: cause_triage
-- A person has seen it: it is not worse any more.
UPDATE rung_causes SET state = :state, owner = COALESCE(:owner, owner), note = COALESCE(:note, note),
  link = COALESCE(:link, link), worse_at = NULL, ignored_rate = COALESCE(:rate, ignored_rate)
WHERE cause_id = :cause

-- name: causes_forget
DELETE FROM rung_causes
WHERE scheduled = 0 AND parked = 0 AND succeeded = 0 AND last_seen < :before
  AND NOT EXISTS (SELECT 1 FROM rung_cause_changes d WHERE d.cause_id = rung_causes.cause_id)
LIMIT :limit

-- name: causes_of_tasks
-- Of tasks that are locked.
SELECT cause_id, state, COUNT(*) FROM rung_tasks FORCE INDEX (PRIMARY) WHERE id IN (:ids) AND cause_id IS NOT NULL
GROUP BY cause_id, state
