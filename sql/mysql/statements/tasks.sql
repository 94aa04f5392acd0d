-- Writes to tasks. :rows are row constructors, :ids are numbers, in ascending order so that every transaction
-- locks rows in the same order.

-- name: intake_ids
-- Returns rows only after a lost answer: the columns that distinguish our row from another with the same id.
SELECT t.id, t.created_at, t.message_id, b.body
FROM rung_tasks t LEFT JOIN rung_bodies b ON b.task_id = t.id WHERE t.id IN (:ids)

-- name: intake_keys
SELECT t.intake_key, t.id, t.state, t.kind, t.attempt + (c.task_id IS NOT NULL), t.created_at
FROM rung_tasks t LEFT JOIN rung_attempts c ON :short_claim WHERE t.intake_key IN (:keys)

-- name: intake_free_keys
-- Ended tasks, and those of :open, give up their key to a new task of the same message. Fewer rows than ids: one was
-- reopened.
UPDATE rung_tasks t FORCE INDEX (PRIMARY) SET intake_key = NULL
WHERE t.id IN (:ids) AND
  (t.id IN (:open) OR t.state IN ('succeeded','parked','cancelled','discarded') OR t.kind = 'delay' AND
   (t.attempt > 0 OR EXISTS (SELECT 1 FROM rung_attempts c WHERE :short_claim)))

-- name: insert_tasks
-- Only the columns in which a row differs from the default: parsing is a good third of an insert's cost for
-- the server. src/store/mysql/tables.cc lists all columns.
INSERT INTO rung_tasks (:columns) VALUES :rows

-- name: insert_bodies
INSERT INTO rung_bodies (task_id, properties, headers, origin, body) VALUES :rows

-- name: insert_headers
-- Only for messages that have a header of index_headers.
INSERT INTO rung_task_headers (task_id, name, value) VALUES :rows

-- name: lock_tasks
-- FORCE INDEX: a table scan would lock other rows too. `now` is read before any lock wait, so it is never
-- ahead. A short claim is read with its task, and locked.
SELECT :columns, UTC_TIMESTAMP(3), c.epoch, c.node
FROM rung_tasks t FORCE INDEX (PRIMARY) LEFT JOIN rung_attempts c ON :short_claim
WHERE t.id IN (:ids) ORDER BY t.id FOR UPDATE

-- name: task_columns
-- The columns that few tasks use come as one, NULL for most tasks: reading them one by one made every step of a task 10 %
-- dearer.
:columns,
  CASE WHEN LENGTH(t.rule) + LENGTH(t.moved_from) + LENGTH(t.error_queue) + t.uncounted_attempts + t.uncounted_ms + t.probe + t.replaced_by + t.came_back > 0
       OR t.rule_headers IS NOT NULL
    THEN CAST(JSON_ARRAY(t.rule, t.uncounted_attempts, t.uncounted_ms, t.moved_from, t.probe, t.rule_headers,
      t.error_queue, t.replaced_by, t.came_back) AS CHAR) END

-- name: short_claim
-- The attempt c is a claim that the row t does not show yet (src/core/machine/machine.h).
t.state = 'scheduled' AND c.task_id = t.id AND c.attempt = t.attempt + 1 AND c.outcome = 'pending'
  AND c.epoch > 0 AND c.due_at = t.next_at

-- name: same_tasks
-- One change for many rows: 12 to 16 us of the server's CPU a row (500 rows a statement, two moving indexes,
-- MariaDB 10.11). write_tasks costs more.
UPDATE rung_tasks FORCE INDEX (PRIMARY) SET :changes WHERE id IN (:ids)

-- name: same_tasks_unread
-- The confirm of claims, without reading the rows first, if each is still as the claim left it. Fewer rows than ids:
-- one has changed: its version differs, or its state if somebody edited the row by hand and left the version.
-- A short claim is written with the confirm, except for its epoch, which nothing reads after the confirm.
UPDATE rung_tasks FORCE INDEX (PRIMARY)
SET version = version + IF(state = 'scheduled', 1, 0), attempt = :attempt, node = :node, copy_number = :copy, :changes
WHERE id IN (:ids) AND (version = :version AND state = 'publishing' OR version = :version - 1 AND state = 'scheduled')

-- name: same_change.column
:column = :value

-- name: same_change.counts
:column = :column + 1

-- name: same_change.next_version
:column = version + 1

-- name: same_change.short_claim
-- with_short_claim() (src/core/machine/machine.h). Before the other changes, of which some begin with these values.
copy_number = version + 1, version = version + 1, attempt = attempt + 1, epoch = :epoch, node = :node, state = 'publishing'

-- name: same_attempts
UPDATE rung_attempts SET :changes WHERE attempt = :attempt AND task_id IN (:ids)

-- name: write_tasks
-- The rows exist and are locked, so this only updates. Of three ways to write many different rows in one
-- statement (this, UPDATE with JSON_TABLE, UPDATE with a UNION of SELECTs) it used the least CPU of the
-- server on MariaDB 10.11: 64, 86 and 95 us a row, measured on busy cores with an earlier schema (three
-- moving indexes), 500 rows a statement.
INSERT INTO rung_tasks (id, :columns) VALUES :rows ON DUPLICATE KEY UPDATE :updates

-- name: write_tasks.update
:column = VALUES(:column)

-- name: write_attempts
-- Unset values leave the column unchanged: level and due_at (written once), a time, an outcome, an error.
-- "Not published yet" is 1970 and not NULL: the confirm then updates the row in place. A row that grows is
-- deleted and inserted again, 8 us of the server's CPU instead of 3.
INSERT INTO rung_attempts (task_id, attempt, level, due_at, published_at, outcome, outcome_at, error, node, executor,
  rule, epoch)
VALUES :rows
ON DUPLICATE KEY UPDATE
  published_at = IF(VALUES(published_at) > '1970-01-01', VALUES(published_at), published_at),
  outcome = IF(VALUES(outcome) = 'pending', outcome, VALUES(outcome)),
  outcome_at = COALESCE(VALUES(outcome_at), outcome_at),
  error = IF(VALUES(error) = '', error, VALUES(error)), node = IF(VALUES(node) = 0, node, VALUES(node)),
  executor = IF(VALUES(executor) = '', executor, VALUES(executor)), rule = IF(VALUES(rule) = '', rule, VALUES(rule)),
  epoch = IF(VALUES(epoch) = 0, epoch, VALUES(epoch))

-- name: lock_body
-- The message of a task that is locked.
SELECT properties, headers, origin FROM rung_bodies WHERE task_id = :id

-- name: replace_message
UPDATE rung_bodies SET properties = :properties, headers = :headers, origin = :origin WHERE task_id = :id

-- name: replace_message.task
UPDATE rung_tasks SET digest = :digest, tag = :tag, rule_headers = :rule_headers, correlation_id = :correlation_id
WHERE id = :id

-- name: drop_attempts
DELETE FROM rung_attempts WHERE :pairs

-- name: drop_attempts.pair
(task_id = :id AND attempt = :attempt)
