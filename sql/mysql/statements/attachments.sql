-- Whether the failures of queues reach us.

-- name: attachments
SELECT queue, state, since, attached_at, detail, checked_at, ready, consumers, read_until, read_from, read_at, counted_at,
  mark, marked_at
FROM rung_attachments WHERE TRUE

-- name: attachments.queues
-- The collation pads with spaces: the caller drops a queue that differs in them.
AND queue IN (:queues)

-- name: attachments_write
REPLACE INTO rung_attachments (queue, length, state, since, attached_at, detail, checked_at, ready, consumers, read_until,
  read_from, read_at, counted_at, mark, marked_at) VALUES :rows

-- name: attachments_forget
DELETE FROM rung_attachments WHERE checked_at < :before AND COALESCE(counted_at, checked_at) < :before LIMIT 1000

-- name: awaiting
SELECT t.id, CASE WHEN a.published_at > '1970-01-01' THEN a.published_at END, t.said_means, t.said_ms
FROM rung_tasks t LEFT JOIN rung_attempts a ON a.task_id = t.id AND a.attempt = t.attempt
WHERE t.id IN (:ids)

-- name: awaiting_queue
SELECT queue FROM rung_tasks FORCE INDEX (by_due)
WHERE state = 'awaiting' AND next_due_at IS NULL AND queue > :queue ORDER BY queue LIMIT 1

-- name: held_silences
-- stage 3: awaiting. by_shard begins with it (with `state` instead, this read the whole table), and has shard, next_at and queue. Shard by
-- shard: rows without an end of silence are the first of each; BETWEEN would read all that await.
SELECT t.queue, COUNT(*) FROM rung_tasks t FORCE INDEX (by_shard)
WHERE t.stage = 3 AND t.shard IN (:shards) AND t.next_at IS NULL
GROUP BY t.queue, CHAR_LENGTH(t.queue)
