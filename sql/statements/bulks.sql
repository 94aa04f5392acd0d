-- Actions on many tasks, and the audit of what is changed by hand.

-- name: write_audit
INSERT INTO rung_audit (at, who, what, task_id, before_change, after_change) VALUES :rows

-- name: audit
SELECT id, at, who, what, task_id, before_change, after_change FROM rung_audit WHERE task_id = :id ORDER BY id

-- name: bulk_insert
INSERT INTO rung_bulks (action, state, filter, reason, queue, exchange, routing_key, rate, who, created_at)
VALUES (:action, :state, :filter, :reason, :queue, :exchange, :routing_key, :rate, :who, UTC_TIMESTAMP(3))

-- name: bulk_id
SELECT LAST_INSERT_ID()

-- name: bulk_freeze
-- A page of the ids that match: what stands between this and bulk_freeze.end is the filter, as in list. Under READ
-- COMMITTED it locks no task.
INSERT INTO rung_bulk_items (bulk_id, task_id) SELECT :bulk, t.id FROM rung_tasks t WHERE t.id > :after

-- name: bulk_freeze.end
ORDER BY t.id LIMIT :limit

-- name: bulk_frozen_to
SELECT COALESCE(MAX(task_id), 0) FROM rung_bulk_items WHERE bulk_id = :bulk

-- name: bulk_total
UPDATE rung_bulks SET total = :total WHERE id = :bulk

-- name: bulks
SELECT id, action, state, filter, reason, queue, exchange, routing_key, rate, who, total, done, applied, refused,
  created_at, finished_at, runner
FROM rung_bulks WHERE TRUE

-- name: bulks.id
AND id = :bulk

-- name: bulks.mine
AND state = 'running' AND runner = :runner AND runner_until > UTC_TIMESTAMP(3)

-- name: bulks.end
ORDER BY id DESC LIMIT :limit

-- name: bulk_set
-- What has ended stays so. Who is at it finds out with its next step.
UPDATE rung_bulks SET finished_at = IF(:state = 'aborted', UTC_TIMESTAMP(3), NULL), state = :state,
  rate = COALESCE(:rate, rate), runner = '', runner_until = NULL
WHERE id = :bulk AND state IN ('running','paused')

-- name: bulk_take
UPDATE rung_bulks SET runner = :runner, runner_until = TIMESTAMPADD(MICROSECOND, :ttl_us, UTC_TIMESTAMP(3))
WHERE state = 'running' AND (runner IN ('', :runner) OR runner_until <= UTC_TIMESTAMP(3))

-- name: bulk_take.end
ORDER BY runner = :runner DESC, id LIMIT 1

-- name: bulk_next
SELECT i.task_id FROM rung_bulk_items i JOIN rung_bulks b ON b.id = i.bulk_id
WHERE i.bulk_id = :bulk AND i.task_id > b.last_id ORDER BY i.task_id LIMIT :limit

-- name: bulk_through
UPDATE rung_bulks SET state = 'done', finished_at = UTC_TIMESTAMP(3), runner = '', runner_until = NULL
WHERE id = :bulk AND runner = :runner AND state = 'running'

-- name: bulk_step
UPDATE rung_bulks SET last_id = :last, done = done + :done, applied = applied + :applied, refused = refused + :refused
WHERE id = :bulk AND runner = :runner AND state = 'running' AND last_id < :last

-- name: count_matching
SELECT COUNT(*) FROM (SELECT 1 FROM rung_tasks t WHERE TRUE

-- name: count_matching.end
LIMIT :most) matching
