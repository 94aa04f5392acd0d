-- Causes of failures.

-- name: cause_new
-- Matches no row if another process was first.
INSERT IGNORE INTO rung_causes (cause_id, queue, error_type, sample, first_seen, last_seen) VALUES :rows

-- name: cause_changes_write
INSERT INTO rung_cause_changes (cause_id, at, scheduled, parked, succeeded, total, failures) VALUES :rows

-- name: cause_changes
-- SKIP LOCKED: does not wait for transactions that are adding rows.
SELECT id FROM rung_cause_changes ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: causes_fold
-- All rows exist: causes_forget keeps those of which a change is left.
UPDATE (
  SELECT cause_id, MAX(CASE WHEN failures > 0 THEN at END) AS seen, SUM(scheduled) AS scheduled, SUM(parked) AS parked,
    SUM(succeeded) AS succeeded, SUM(total) AS total
  FROM rung_cause_changes WHERE id IN (:ids) GROUP BY cause_id) d
STRAIGHT_JOIN rung_causes c ON c.cause_id = d.cause_id
SET c.scheduled = c.scheduled + d.scheduled, c.parked = c.parked + d.parked, c.succeeded = c.succeeded + d.succeeded,
  c.total = c.total + d.total, c.last_seen = GREATEST(c.last_seen, COALESCE(d.seen, c.last_seen))

-- name: cause_rates_fold
-- Buckets of five minutes (kCauseBuckets).
INSERT INTO rung_cause_rates (cause_id, since, failures)
SELECT d.cause_id, d.bucket, d.more FROM (
  SELECT cause_id, TIMESTAMPADD(MINUTE, TIMESTAMPDIFF(MINUTE, '1970-01-01', at) DIV 5 * 5, '1970-01-01') AS bucket,
    SUM(failures) AS more
  FROM rung_cause_changes WHERE id IN (:ids) AND failures > 0 GROUP BY cause_id, bucket) d
ON DUPLICATE KEY UPDATE failures = failures + d.more

-- name: causes_again
-- Those that have failed though they were resolved, or ignored and got worse.
SELECT c.cause_id FROM (SELECT DISTINCT cause_id FROM rung_cause_changes WHERE id IN (:ids) AND failures > 0) d
STRAIGHT_JOIN rung_causes c ON c.cause_id = d.cause_id
WHERE c.state = 'resolved' OR c.state = 'ignored' AND
  (SELECT COALESCE(SUM(r.failures), 0) FROM rung_cause_rates r
   WHERE r.cause_id = c.cause_id AND r.since > UTC_TIMESTAMP(3) - INTERVAL 1 HOUR) >= :times * GREATEST(c.ignored_rate, 1)

-- name: causes_reopen
UPDATE rung_causes
SET worse_at = IF(state = 'ignored', UTC_TIMESTAMP(3), NULL), state = IF(state = 'ignored', 'new', 'regressed')
WHERE cause_id IN (:causes) AND state IN ('ignored', 'resolved')

-- name: causes_resolve
UPDATE (SELECT DISTINCT cause_id FROM rung_cause_changes WHERE id IN (:ids)) d
STRAIGHT_JOIN rung_causes c ON c.cause_id = d.cause_id
SET c.state = 'resolved', c.worse_at = NULL
WHERE c.scheduled + c.parked = 0 AND c.state NOT IN ('ignored', 'resolved')

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

-- name: cause_changes_of_purged
-- Of tasks that are locked. Of the states that end, causes count only one.
INSERT INTO rung_cause_changes (cause_id, at, scheduled, parked, succeeded, total, failures)
SELECT cause_id, '1970-01-01', 0, 0, -COUNT(*), 0, 0 FROM rung_tasks FORCE INDEX (PRIMARY)
WHERE id IN (:ids) AND cause_id IS NOT NULL AND state = 'succeeded' GROUP BY cause_id
