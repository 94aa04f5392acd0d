-- Reads. Each is one statement, outside of a transaction.

-- name: messages
SELECT task_id, properties, headers, body FROM rung_bodies WHERE task_id IN (:ids)

-- name: work_waiting
-- Asked twice a second: each part ends at the first row of an index. Stages: scheduled or publishing, awaiting, parked.
SELECT
  EXISTS (SELECT 1 FROM rung_tasks FORCE INDEX (by_shard)
          WHERE stage = 1 AND shard IN (:shards) AND next_at <= :scheduled_until),
  EXISTS (SELECT 1 FROM rung_tasks FORCE INDEX (by_shard)
          WHERE stage = 3 AND shard IN (:shards) AND next_at <= :until),
  EXISTS (SELECT 1 FROM rung_tasks FORCE INDEX (by_shard)
          WHERE stage = 5 AND shard IN (:shards) AND next_at <= :until),
  EXISTS (SELECT 1 FROM rung_bulks WHERE state = 'running' AND next_at <= UTC_TIMESTAMP(3)),
  EXISTS (SELECT 1 FROM rung_cause_changes)

-- name: due_few
-- All shards at once, unsorted: fewer rows than the limit means these are all, which is nearly always so. In
-- stage 1 (scheduled, publishing) it returns claimed tasks too; the statement `publishing` identifies them, so
-- this one reads only its index.
SELECT id, shard, next_at, queue FROM rung_tasks FORCE INDEX (by_shard)
WHERE stage = :stage AND shard IN (:shards) AND next_at <= :until AND next_at > :after :without LIMIT :limit

-- name: due_shard
-- One shard's range, read from the index alone; joined by UNION ALL. `shard IN (64 values) ORDER BY next_at
-- LIMIT` sorts everything (2.3 s on 10 M rows).
(SELECT id, shard, next_at, queue FROM rung_tasks FORCE INDEX (by_shard)
 WHERE stage = :stage AND shard = :shard AND next_at <= :until AND next_at > :after :without ORDER BY next_at LIMIT :limit)

-- name: due.without
-- The dot distinguishes 'a' from 'a '.
AND CONCAT(queue, '.') NOT IN (:queues)

-- name: publishing
-- At most the sum of all instances' broker.max_unconfirmed, however many other tasks are overdue.
SELECT id, shard, next_at, queue FROM rung_tasks FORCE INDEX (by_due)
WHERE state = 'publishing' AND next_due_at <= :until AND next_due_at > :after AND shard IN (:shards)

-- name: stranded
SELECT id, shard, next_at, queue FROM rung_tasks FORCE INDEX (by_due)
WHERE state = 'publishing' AND (:leases) ORDER BY next_due_at LIMIT :limit

-- name: stranded.lease
shard = :shard AND epoch < :epoch

-- name: short_claims
-- Reads what is due in one shard, once after it was taken.
SELECT t.id FROM rung_tasks t FORCE INDEX (by_shard) STRAIGHT_JOIN rung_attempts c ON :short_claim
WHERE t.stage = 1 AND t.shard = :shard AND t.next_at <= UTC_TIMESTAMP(3) + INTERVAL 1 SECOND AND c.epoch < :epoch

-- name: list
SELECT :columns, n.name, t.correlation_id FROM rung_tasks t LEFT JOIN rung_nodes n ON n.id = t.node WHERE TRUE

-- name: list.ids
AND t.id IN (:ids)

-- name: list.after_due
AND (t.next_due_at > :due OR (t.next_due_at = :due AND t.id > :id))

-- name: list.after_all_due
AND t.next_due_at IS NULL AND t.id > :id

-- name: list.states
AND t.state IN (:states)

-- name: list.is
AND t.:column = :value

-- name: list.text
-- The length distinguishes 'a' from 'a '; the collation does not.
AND t.:column = :value AND CHAR_LENGTH(t.:column) = CHAR_LENGTH(:value)

-- name: list.header
AND t.id IN (SELECT h.task_id FROM rung_task_headers h
  WHERE h.name = :name AND h.value = :value AND CHAR_LENGTH(h.value) = CHAR_LENGTH(:value))

-- name: list.error
AND LOCATE(:text, t.last_error) > 0

-- name: list.before
AND t.:column < :value

-- name: list.after
AND t.:column > :value

-- name: list.from
AND t.:column >= :value

-- name: list.silence_held
AND t.state = 'awaiting' AND t.next_at IS NULL

-- name: list.body_stored
AND t.rule <> 'not_stored'

-- name: list.end
ORDER BY t.id DESC LIMIT :limit

-- name: list.end_oldest
ORDER BY t.id LIMIT :limit

-- name: list.end_due
-- Those that have a due time: a range of by_due. Sorting all tasks by it read all ended ones, too.
AND t.state IN ('scheduled','publishing') AND t.next_due_at IS NOT NULL ORDER BY t.next_due_at, t.id LIMIT :limit

-- name: list.end_not_due
AND t.next_due_at IS NULL ORDER BY t.id LIMIT :limit

-- name: children
-- A stranger may send any number of tasks with one message-id: it reads no more than :look of them. A child is younger
-- than its parent.
SELECT c.id FROM
  (SELECT t.id, t.parent_id FROM rung_tasks t FORCE INDEX (by_message)
   WHERE t.message_id = :message_id AND CHAR_LENGTH(t.message_id) = CHAR_LENGTH(:message_id) AND t.id > :id
   ORDER BY t.id LIMIT :look) c
WHERE c.parent_id = :id ORDER BY c.id LIMIT :limit

-- name: history
SELECT a.task_id, a.attempt, a.level, a.due_at,
  CASE WHEN a.published_at > '1970-01-01' THEN a.published_at END, a.outcome, a.outcome_at, a.error, a.node,
  a.executor, a.rule, t.queue, t.message_id, n.name
FROM rung_attempts a JOIN rung_tasks t ON t.id = a.task_id LEFT JOIN rung_nodes n ON n.id = a.node
WHERE a.task_id IN (:ids) ORDER BY a.task_id, a.attempt

-- name: origins
SELECT task_id, origin FROM rung_bodies WHERE task_id IN (:ids)

-- name: open_by_queue
-- Ended tasks are most rows, and are not read: `state` is the first column of by_due, and both databases apply the condition
-- inside the view.
SELECT queue, state, tasks, oldest_due_at, overdue FROM retry_by_queue
WHERE state IN ('scheduled','publishing','awaiting','parked') ORDER BY queue, state

-- name: count_ended
-- At most :most entries of by_due. Names that differ only in trailing blanks are one place in the index: last_id is theirs together.
SELECT e.queue, COUNT(*), MAX(MAX(e.id)) OVER (PARTITION BY e.queue) AS last_id
FROM (
  SELECT queue, id FROM rung_tasks FORCE INDEX (by_due)
  WHERE state = :state AND next_due_at IS NULL AND :which LIMIT :most
) e
GROUP BY e.queue, CHAR_LENGTH(e.queue)
ORDER BY e.queue

-- name: count_ended.same_queue
queue = :queue AND id > :id ORDER BY id

-- name: count_ended.next_queues
queue > :queue ORDER BY queue, id
