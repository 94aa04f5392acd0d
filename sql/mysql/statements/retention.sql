-- Retention: what is over and old goes. Tasks go in small batches; their attempts and bodies with the part (partition) of
-- the day on which they were taken in, dropped whole, or row by row where something of that day stays.

-- name: over_page
-- By what has finished longest ago: parked ones too, which have no index of their own here and are passed over by whoever
-- reads this. A page is so many entries of the index, so that a long row of parked ones makes no long statement.
SELECT id, finished_at, state FROM rung_tasks FORCE INDEX (by_finished)
WHERE finished_at >= :at AND finished_at < :before AND (finished_at > :at OR id > :id)
ORDER BY finished_at, id LIMIT :limit

-- name: over_lock
-- What was opened again since, or is in somebody's hands just now, stays.
SELECT id FROM rung_tasks FORCE INDEX (PRIMARY)
WHERE id IN (:ids) AND state IN ('succeeded','cancelled','discarded') AND finished_at < :before
ORDER BY id FOR UPDATE SKIP LOCKED

-- name: over_delete
-- This form of DELETE takes FORCE INDEX: a table scan would wait for rows that are not asked for.
DELETE t FROM rung_tasks t FORCE INDEX (PRIMARY) WHERE t.id IN (:ids)

-- name: over_delete_headers
DELETE h FROM rung_task_headers h FORCE INDEX (PRIMARY) WHERE h.task_id IN (:ids)

-- name: bulks_under_way
SELECT id FROM rung_bulks WHERE state IN ('running','paused')

-- name: bulks_name
SELECT task_id FROM rung_bulk_items WHERE bulk_id IN (:bulks) AND task_id IN (:ids)

-- name: parts
SELECT table_name, partition_name, partition_description FROM information_schema.partitions
WHERE table_schema = DATABASE() AND table_name IN ('rung_attempts','rung_bodies') AND partition_name IS NOT NULL
ORDER BY table_name, partition_ordinal_position

-- name: part_session
-- Whoever waits for a table makes all others wait behind it: not for longer than this.
SET SESSION lock_wait_timeout = 1

-- name: part_lock
-- Once this is granted nobody is within a transaction that has written a body: whose body is in the part has its task
-- committed, and whoever writes one later finds the part gone and writes into the next.
LOCK TABLES rung_attempts WRITE, rung_bodies WRITE

-- name: part_unlock
UNLOCK TABLES

-- name: part_held
-- Is there a task left in it.
SELECT id FROM rung_tasks WHERE id >= :from AND id < :to LIMIT 1

-- name: part_drop
ALTER TABLE :table DROP PARTITION :part

-- name: parts_add
ALTER TABLE :table REORGANIZE PARTITION rest INTO (:parts)

-- name: parts_add.one
PARTITION :part VALUES LESS THAN (:end)

-- name: parts_add.rest
PARTITION rest VALUES LESS THAN MAXVALUE

-- name: rest_bodies
-- What cutting a part off would have to copy: counted up to a limit, as the next two.
SELECT COUNT(*) FROM (SELECT 1 FROM rung_bodies PARTITION (rest) LIMIT :most) some

-- name: rest_attempts
SELECT COUNT(*) FROM (SELECT 1 FROM rung_attempts PARTITION (rest) LIMIT :most) some

-- name: rest_bytes
SELECT COALESCE(SUM(body_bytes), 0) FROM (SELECT body_bytes FROM rung_tasks WHERE id >= :from LIMIT :most) some

-- name: sweep_bodies
SELECT task_id FROM rung_bodies WHERE task_id >= :from AND task_id < :to ORDER BY task_id LIMIT :limit

-- name: sweep_attempts
SELECT DISTINCT task_id FROM rung_attempts WHERE task_id >= :from AND task_id < :to ORDER BY task_id LIMIT :limit

-- name: sweep_tasks
SELECT id FROM rung_tasks WHERE id >= :from AND id < :to

-- name: sweep_delete_bodies
DELETE b FROM rung_bodies b FORCE INDEX (PRIMARY) WHERE b.task_id IN (:ids)

-- name: sweep_delete_attempts
DELETE a FROM rung_attempts a FORCE INDEX (PRIMARY) WHERE a.task_id IN (:ids)

-- name: old_audit
SELECT id FROM rung_audit WHERE at < :before ORDER BY at LIMIT :limit

-- name: old_audit_delete
DELETE a FROM rung_audit a FORCE INDEX (PRIMARY) WHERE a.id IN (:ids)

-- name: old_bulk
SELECT id FROM rung_bulks WHERE state IN ('aborted','done') AND finished_at < :before ORDER BY id LIMIT 1

-- name: old_bulk_items
SELECT task_id FROM rung_bulk_items WHERE bulk_id = :bulk ORDER BY task_id LIMIT :limit

-- name: old_bulk_items_delete
DELETE i FROM rung_bulk_items i FORCE INDEX (PRIMARY) WHERE i.bulk_id = :bulk AND i.task_id IN (:ids)

-- name: old_bulk_delete
-- Also a bulk that ended is shown by its row: its items go first.
DELETE FROM rung_bulks WHERE id = :bulk AND state IN ('aborted','done')
