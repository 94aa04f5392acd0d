-- Retention: deletes old finished tasks in small batches. Their attempts and bodies are deleted with the
-- partition of the day of their intake, or row by row if a task of that day remains.

-- name: over_page
-- The longest finished first. Includes parked tasks, which have no separate index here; the caller skips
-- them. A page is a number of index entries, so that a long run of parked tasks does not make the statement
-- slow.
SELECT id, finished_at, state FROM rung_tasks FORCE INDEX (by_finished)
WHERE finished_at >= :at AND finished_at < :before AND (finished_at > :at OR id > :id)
ORDER BY finished_at, id LIMIT :limit

-- name: over_lock
-- Keeps tasks that were reopened since, or that are locked now.
SELECT id FROM rung_tasks FORCE INDEX (PRIMARY)
WHERE id IN (:ids) AND state IN ('succeeded','cancelled','discarded') AND finished_at < :before
ORDER BY id FOR UPDATE SKIP LOCKED

-- name: delete_by_ids
-- This form of DELETE accepts FORCE INDEX: a table scan would wait for locks on other rows.
DELETE t FROM :table t FORCE INDEX (PRIMARY) WHERE t.:column IN (:ids)

-- name: bulks_under_way
SELECT id FROM rung_bulks WHERE state IN ('running','paused')

-- name: bulks_name
SELECT task_id FROM rung_bulk_items WHERE bulk_id IN (:bulks) AND task_id IN (:ids)

-- name: parts
-- Without the last ones, which have no end.
SELECT table_name, partition_name, CAST(partition_description AS SIGNED) FROM information_schema.partitions
WHERE table_schema = DATABASE() AND table_name IN ('rung_attempts','rung_bodies') AND partition_description <> 'MAXVALUE'
ORDER BY table_name, partition_ordinal_position

-- name: part_session
-- A session that waits for a table lock makes all later ones wait behind it: this is the limit.
SET SESSION lock_wait_timeout = 1

-- name: part_lock
-- Until the session ends. Once granted, no transaction that has written a body is open: if a body is in the partition, its task is
-- committed. A later writer finds the partition gone and writes into the next one.
LOCK TABLES rung_attempts WRITE, rung_bodies WRITE

-- name: part_held
-- Whether the partition still has a task.
SELECT id FROM rung_tasks WHERE id >= :from AND id < :to LIMIT 1

-- name: part_drop
ALTER TABLE :table DROP PARTITION :part

-- name: parts_add
ALTER TABLE :table REORGANIZE PARTITION rest INTO (:parts)

-- name: parts_add.one
PARTITION :part VALUES LESS THAN (:end)

-- name: parts_add.rest
PARTITION rest VALUES LESS THAN MAXVALUE

-- name: rest_rows
-- The rows that splitting off a partition would copy: counted up to a limit, as in the next.
SELECT COUNT(*) FROM (SELECT 1 FROM :table PARTITION (rest) LIMIT :most) some

-- name: rest_bytes
SELECT COALESCE(SUM(body_bytes), 0) FROM (SELECT body_bytes FROM rung_tasks WHERE id >= :from LIMIT :most) some

-- name: sweep_page
-- The next tasks of which there is a body or an attempt, and whether they themselves are gone.
SELECT p.task_id, t.id IS NULL FROM (
  (SELECT task_id FROM rung_bodies WHERE task_id >= :from AND task_id < :to ORDER BY task_id LIMIT :limit)
  UNION
  (SELECT DISTINCT task_id FROM rung_attempts WHERE task_id >= :from AND task_id < :to ORDER BY task_id LIMIT :limit)
  ORDER BY task_id LIMIT :limit) p
LEFT JOIN rung_tasks t ON t.id = p.task_id ORDER BY p.task_id

-- name: old_rows
SELECT id FROM :table WHERE at < :before ORDER BY at LIMIT :limit

-- name: old_bulk
SELECT id FROM rung_bulks WHERE state IN ('aborted','done','stopped') AND finished_at < :before ORDER BY id LIMIT 1

-- name: old_bulk_items_delete
DELETE FROM rung_bulk_items WHERE bulk_id = :bulk ORDER BY task_id LIMIT :limit
