-- Bulks (actions on many tasks), and the audit of changes by hand.

-- name: write_audit
INSERT INTO rung_audit (at, who, what, task_id, before_change, after_change, reason, bulk_id) VALUES :rows

-- name: audit
SELECT id, at, who, what, task_id, before_change, after_change, reason, bulk_id FROM rung_audit WHERE task_id = :id
ORDER BY id

-- name: audit_log
SELECT t.audit_id, t.at, t.who, t.what, t.retry_id, t.before_change, t.after_change, t.reason, t.bulk_id, :audit_queue
FROM retry_audit t LEFT JOIN retry_current c ON c.retry_id = t.retry_id WHERE TRUE

-- name: audit_log_end
SELECT t.at, t.audit_id FROM retry_audit t WHERE TRUE

-- name: audit_queue
-- A pause is about a queue, not about a task; so is a bulk.
COALESCE(c.queue, CASE WHEN t.retry_id = 0 AND JSON_VALID(t.after_change)
                       THEN JSON_UNQUOTE(JSON_EXTRACT(t.after_change, '$.queue')) END)

-- name: audit_log.bulk
-- 0: what stands for itself; else what this bulk has done to each of its tasks.
AND t.part_of_bulk = :bulk

-- name: audit_log.after
AND t.at <= :at AND (t.at < :at OR t.audit_id < :id)

-- name: audit_log.down_to
AND t.at >= :at AND (t.at > :at OR t.audit_id >= :id)

-- name: audit_log.queue
-- A bulk whose filter names no queue may have changed its tasks.
AND ((:audit_queue = :queue AND CHAR_LENGTH(:audit_queue) = CHAR_LENGTH(:queue))
  OR (t.retry_id = 0 AND t.bulk_id IS NOT NULL AND :audit_queue IS NULL))

-- name: audit_log.who
AND LEFT(t.who, CHAR_LENGTH(:who)) = :who

-- name: audit_log.end
ORDER BY t.at DESC, t.audit_id DESC LIMIT :limit OFFSET :skip

-- name: bulk_insert
INSERT INTO rung_bulks (action, state, filter, reason, queue, exchange, routing_key, even_reported, rate, canary,
  watch_ms, ramp, stop_above, who, next_at, created_at)
VALUES (:action, :state, :filter, :reason, :queue, :exchange, :routing_key, :even_reported, :rate, :canary,
  :watch_ms, :ramp, :stop_above, :who, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))

-- name: bulk_id
SELECT LAST_INSERT_ID()

-- name: bulk_redrives_in_turn
-- Redrives are created one at a time: each must see what the others have frozen.
INSERT INTO rung_settings (name, value) VALUES ('redrives', '1') ON DUPLICATE KEY UPDATE value = value + 1

-- name: bulk_freeze
-- Inserts a page of the matching ids. The filter goes between this and bulk_freeze.end, as in list. Under
-- READ COMMITTED it locks no task.
INSERT INTO rung_bulk_items (bulk_id, task_id) SELECT :bulk, t.id FROM rung_tasks t WHERE t.id > :after

-- name: bulk_freeze.no_other_redrive
AND NOT EXISTS (SELECT 1 FROM rung_bulks b JOIN rung_bulk_items i ON i.bulk_id = b.id AND i.task_id = t.id
  WHERE b.state IN ('running','paused') AND b.action = 'redrive' AND b.id <> :bulk
    AND i.task_id > b.last_id)

-- name: bulk_freeze.end
ORDER BY t.id LIMIT :limit

-- name: bulk_frozen_to
SELECT COALESCE(MAX(task_id), 0) FROM rung_bulk_items WHERE bulk_id = :bulk

-- name: bulk_total
UPDATE rung_bulks SET total = :total WHERE id = :bulk

-- name: bulks
-- Without actions that a later version added: they would be mistaken for others.
SELECT id, action, state, filter, reason, queue, exchange, routing_key, rate, who, total, done, applied, refused,
  created_at, finished_at, runner, last_id, even_reported, canary, watch_ms, ramp, stop_above, canary_done,
  stopped_because, changed_at, changed_by, changed_because
FROM rung_bulks t WHERE action IN ('cancel','fire','redrive','discard','succeed','fail')

-- name: bulk_set
-- An ended bulk stays ended. The runner notices the change at its next step. A new rate applies at once.
UPDATE rung_bulks SET finished_at = IF(:state = 'aborted', UTC_TIMESTAMP(3), NULL), state = :state,
  next_at = IF(:rate IS NULL, next_at, UTC_TIMESTAMP(3)), rate = COALESCE(:rate, rate), runner = '', runner_until = NULL,
  changed_at = UTC_TIMESTAMP(3), changed_by = :who, changed_because = :reason
WHERE id = :bulk AND state IN ('running','paused')

-- name: bulk_due
-- The bulk that is due first: each runs at its own rate, none has priority. Read without a lock, which would
-- wait for a bulk that is being created; bulk_take checks again. Ignores actions that a later version added.
SELECT id FROM rung_bulks t WHERE action IN ('cancel','fire','redrive','discard','succeed','fail')

-- name: bulk_due.free
AND state = 'running' AND next_at <= UTC_TIMESTAMP(3)
AND (runner IN ('', :runner) OR runner_until <= UTC_TIMESTAMP(3))

-- name: bulk_due.end
ORDER BY next_at, id LIMIT 1

-- name: bulk_take
UPDATE rung_bulks SET runner = :runner, runner_until = TIMESTAMPADD(MICROSECOND, :ttl_us, UTC_TIMESTAMP(3))
WHERE id = :bulk

-- name: bulk_next
SELECT task_id FROM rung_bulk_items WHERE bulk_id = :bulk AND task_id > :from ORDER BY task_id LIMIT :limit

-- name: bulk.if_ours
-- Only from the expected position: even two processes with one name do nothing twice.
WHERE id = :bulk AND runner = :runner AND state = 'running' AND last_id = :from

-- name: bulk_through
UPDATE rung_bulks SET state = 'done', finished_at = UTC_TIMESTAMP(3), runner = '', runner_until = NULL

-- name: bulk_step
-- The next step is due one interval of its rate after this one was due (a delay of up to 200 ms is made up for). The
-- runner keeps the bulk until a little after that.
UPDATE rung_bulks SET last_id = :last, done = done + :done, applied = applied + :applied, refused = refused + :refused,
  next_at = IF(:rate > 0, TIMESTAMPADD(MICROSECOND, CAST(:done * 1000000 / :rate AS SIGNED),
    GREATEST(next_at, TIMESTAMPADD(MICROSECOND, -200000, UTC_TIMESTAMP(3)))), UTC_TIMESTAMP(3)),
  runner_until = TIMESTAMPADD(SECOND, 2, GREATEST(next_at, UTC_TIMESTAMP(3)))

-- name: bulk_items_changed
UPDATE rung_bulk_items i JOIN rung_tasks t ON t.id = i.task_id SET i.after_attempt = t.attempt
WHERE i.bulk_id = :bulk AND i.task_id IN (:ids)

-- name: bulk_sent
-- Of the last :limit processed: the first attempt since the bulk's change of the task. Only of a failure the error is of
-- interest.
SELECT i.task_id, t.queue, t.state, t.state = 'awaiting' AND t.next_at IS NULL, t.silence_means, t.silence_ms, a.outcome,
  CASE WHEN a.published_at > '1970-01-01' THEN a.published_at END,
  CASE WHEN a.outcome IN ('failed','timed_out','returned') THEN LEFT(a.error, 200) END
FROM (SELECT task_id, after_attempt FROM rung_bulk_items WHERE bulk_id = :bulk
  AND task_id <= (SELECT last_id FROM rung_bulks WHERE id = :bulk) ORDER BY task_id DESC LIMIT :limit) i
JOIN rung_tasks t ON t.id = i.task_id
LEFT JOIN rung_attempts a ON a.task_id = i.task_id AND a.attempt = i.after_attempt + 1
WHERE i.after_attempt IS NOT NULL
ORDER BY i.task_id DESC

-- name: bulk_wait
-- Its runner keeps it until a little after the next look.
UPDATE rung_bulks SET next_at = TIMESTAMPADD(MICROSECOND, :pause_us, UTC_TIMESTAMP(3)),
  runner_until = TIMESTAMPADD(SECOND, 2, TIMESTAMPADD(MICROSECOND, :pause_us, UTC_TIMESTAMP(3)))

-- name: bulk_canary_passed
UPDATE rung_bulks SET canary_done = COALESCE(canary_done, done)

-- name: bulk_stop
UPDATE rung_bulks SET state = 'stopped', stopped_because = :why, finished_at = UTC_TIMESTAMP(3), runner = '',
  runner_until = NULL

-- name: count_matching
SELECT COUNT(*) FROM (SELECT 1 FROM rung_tasks t WHERE TRUE

-- name: count_matching.end
LIMIT :most) matching

-- name: count_by
-- Counts the matching tasks by a value, at most :most. The length distinguishes 'a' from 'a '.
SELECT m.value, COUNT(*) AS tasks, SUM(COUNT(*)) OVER () AS total
FROM (SELECT :value AS value FROM rung_tasks t WHERE TRUE

-- name: count_by.end
LIMIT :most) m
GROUP BY m.value, CHAR_LENGTH(m.value) ORDER BY tasks DESC, m.value LIMIT :groups

-- name: count_by.header
(SELECT v.value FROM rung_task_headers v WHERE v.task_id = t.id AND v.name = :name)
