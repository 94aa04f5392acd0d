-- The schema, whole. Every statement may be repeated: DDL commits implicitly, so a migration that was interrupted is run
-- again from its beginning.
--
-- Times are DATETIME(3), UTC. Words are ENUMs in the order of src/core/task/task.h: append only.
-- Names of queues and the like are utf8mb4_bin: case-sensitive. That collation pads with spaces when it compares, so
-- queries that must distinguish 'a' from 'a ' compare the length too, and tables by queue have it in their key.
-- Ids are ordered by time (src/core/base/ids.h): a range of ids is a range of time, which allows partitions by id.
-- There are no foreign keys, and only intake_key is unique besides the keys. ROW_FORMAT is named: the indexes are too long
-- for the COMPACT or REDUNDANT that innodb_default_row_format may be.
-- Rows of rung_gates, rung_pauses and rung_attachments are written by REPLACE: a program resets columns that it does not know.

-- incarnation: of the process. beats counts registrations and heartbeats: a sidecar that reads a lower count than it wrote
-- knows that the database went back in time (a restored backup). problems: JSON (src/core/base/health.h). broker_link: 0 cannot
-- publish for longer than a lease, 1 can, 2 its connection has just been interrupted; an instance that cannot, while another
-- can, releases its shards and gets none. config: fingerprint of the effective config.
CREATE TABLE IF NOT EXISTS rung_nodes (
  id          SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT,
  name        VARCHAR(255) NOT NULL,
  incarnation BIGINT UNSIGNED NOT NULL,
  started_at  DATETIME(3) NOT NULL,
  seen_at     DATETIME(3) NOT NULL,
  expires_at  DATETIME(3) NOT NULL,
  version     VARCHAR(64) NOT NULL DEFAULT '',
  address     VARCHAR(255) NOT NULL DEFAULT '',
  problems    TEXT NULL,
  beats       BIGINT UNSIGNED NOT NULL DEFAULT 0,
  broker_link TINYINT NOT NULL DEFAULT 1,
  config      VARCHAR(32) CHARACTER SET ascii NOT NULL DEFAULT '',
  PRIMARY KEY (id),
  UNIQUE KEY by_name (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- taken_over_at: when the shard was last taken from an owner that had not given it back. What that owner left in
-- `publishing` waits from then on until its connection must be dead, also if the new owner restarts or gives the shard on.
CREATE TABLE IF NOT EXISTS rung_shards (
  id            SMALLINT UNSIGNED NOT NULL,
  owner         SMALLINT UNSIGNED NULL,
  epoch         BIGINT UNSIGNED NOT NULL DEFAULT 0,
  expires_at    DATETIME(3) NULL,
  acquired_at   DATETIME(3) NULL,
  taken_over_at DATETIME(3) NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT IGNORE INTO rung_shards (id) VALUES
  (0),(1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11),(12),(13),(14),(15),
  (16),(17),(18),(19),(20),(21),(22),(23),(24),(25),(26),(27),(28),(29),(30),(31),
  (32),(33),(34),(35),(36),(37),(38),(39),(40),(41),(42),(43),(44),(45),(46),(47),
  (48),(49),(50),(51),(52),(53),(54),(55),(56),(57),(58),(59),(60),(61),(62),(63);

-- Every step of a task moves its entry in by_shard and in by_due, in no other index. A third moving index
-- (queue, state, next_due_at) doubled the cost of a step: 68 us of the server's CPU instead of 34 (18 with none).
-- `stage` is 1 for scheduled and publishing, and the state's number for the others: a claim does not change it. Searches by
-- time use it instead of `state`, which saves 5 of a claim's 14 us a row. by_shard also has the
-- queue: the loader of due tasks limits each queue, and reads only the index.
--
-- next_at drives the state machine: in awaiting it is the end of silence, in parked it means that a copy is still to be
-- published. next_due_at is for people: when the message comes (back) to its queue. It is a stored generated column, so that
-- it can be indexed and the views pass it through.
--
-- version: for conditional changes. silence_*: what silence means for this task; NULL: what its queue's rules say. said_*: what
-- it means after the last delivery, written with its confirm (not NULL: the row must not grow then). rule: which decided at the last failure.
-- uncounted_*: what limits do not count. rule_headers: a JSON object with the headers that rules name. probe: the number of
-- the breaker's probe that the last attempt was. digest: which message it is (src/core/message/identity.h). parent_id: the task
-- whose place on the ladder this one continues. cause_id: of the last failure (src/store/causes.h). replaced_by: the edited
-- copy (src/core/machine/by_hand.h). copy_number, came_back: src/core/task/task.h.
CREATE TABLE IF NOT EXISTS rung_tasks (
  id                 BIGINT NOT NULL,
  shard              SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  state              ENUM('scheduled','publishing','awaiting','succeeded','parked','cancelled','discarded') NOT NULL DEFAULT 'scheduled',
  kind               ENUM('retry','delay') NOT NULL DEFAULT 'retry',
  next_at            DATETIME(3) NULL,
  next_due_at        DATETIME(3) GENERATED ALWAYS AS (IF(state + 0 <= 2, next_at, NULL)) STORED,
  attempt            INT NOT NULL DEFAULT 0,
  level              INT NOT NULL DEFAULT 1,
  levels             INT NOT NULL DEFAULT 0,
  max_attempts       INT NOT NULL DEFAULT 0,
  ladder             VARCHAR(255) NOT NULL DEFAULT '',
  ladder_pinned      TINYINT NOT NULL DEFAULT 0,
  epoch              BIGINT UNSIGNED NOT NULL DEFAULT 0,
  node               SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  queue              VARCHAR(255) NOT NULL DEFAULT '',
  exchange           VARCHAR(255) NOT NULL DEFAULT '',
  routing_key        VARCHAR(255) NOT NULL DEFAULT '',
  tag                VARCHAR(255) NOT NULL DEFAULT '',
  message_id         VARCHAR(255) NOT NULL DEFAULT '',
  first_failed_at    DATETIME(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  created_at         DATETIME(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  finished_at        DATETIME(3) NULL,
  finished_by        ENUM('reported','presumed') NULL,
  last_error         TEXT NULL,
  error_type         VARCHAR(255) NOT NULL DEFAULT '',
  body_bytes         BIGINT NOT NULL DEFAULT 0,
  intake_key         BINARY(16) NULL,
  version            INT UNSIGNED NOT NULL DEFAULT 1,
  silence_means      ENUM('success','failure') NULL,
  silence_ms         BIGINT NULL,
  said_means         ENUM('','success','failure') NOT NULL DEFAULT '',
  said_ms            BIGINT NOT NULL DEFAULT 0,
  by_exchange        TINYINT NOT NULL DEFAULT 0,
  stage              TINYINT GENERATED ALWAYS AS (IF(state + 0 <= 2, 1, state + 0)) STORED,
  correlation_id     VARCHAR(255) NULL,
  rule               VARCHAR(255) NOT NULL DEFAULT '',
  uncounted_attempts INT NOT NULL DEFAULT 0,
  uncounted_ms       BIGINT NOT NULL DEFAULT 0,
  moved_from         VARCHAR(255) NOT NULL DEFAULT '',
  rule_headers       TEXT NULL,
  probe              INT NOT NULL DEFAULT 0,
  error_queue        VARCHAR(255) NOT NULL DEFAULT '',
  digest             VARBINARY(16) NOT NULL DEFAULT '',
  parent_id          BIGINT NOT NULL DEFAULT 0,
  cause_id           CHAR(12) CHARACTER SET ascii COLLATE ascii_bin NULL,
  replaced_by        BIGINT NOT NULL DEFAULT 0,
  copy_number        INT UNSIGNED NOT NULL DEFAULT 0,
  came_back          INT UNSIGNED NOT NULL DEFAULT 0,
  PRIMARY KEY (id),
  UNIQUE KEY by_intake_key (intake_key),
  KEY by_shard (stage, shard, next_at, queue),    -- the window, the sweep, silence
  KEY by_due (state, next_due_at, queue),         -- people: due and parked tasks; all of retry_by_queue
  KEY by_queue (queue),
  KEY by_message (message_id),
  KEY by_created (created_at),
  KEY by_finished (finished_at),                  -- moves once; reports, and retention
  KEY by_tag (tag),
  KEY by_correlation (correlation_id),
  KEY by_cause (cause_id)                         -- moves with the cause, not with each step
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The headers that `index_headers` of the config names, for searches: rows only for messages with such a header.
CREATE TABLE IF NOT EXISTS rung_task_headers (
  task_id BIGINT NOT NULL,
  name    VARCHAR(128) NOT NULL,
  value   VARCHAR(255) NOT NULL,
  PRIMARY KEY (task_id, name),
  KEY by_value (name, value, task_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Separate from the tasks, which are rewritten at every step: with bodies inline and a small buffer pool a
-- reschedule was 12 times slower.
--
-- The tables of the history, this one and rung_attempts, are partitioned by the time of their tasks' intake: an old partition
-- is dropped like a file, whatever its size. Two at first: `d0`, everything up to the end of tomorrow (UTC; :bound is the
-- first id after it), and `rest`, which stays empty: retention splits days off it before they begin
-- (sql/mysql/statements/retention.sql). rung_tasks is not partitioned: its unique intake_key does not contain the id.
CREATE TABLE IF NOT EXISTS rung_bodies (
  task_id    BIGINT NOT NULL,
  properties MEDIUMTEXT NOT NULL,
  headers    MEDIUMTEXT NULL,
  origin     MEDIUMTEXT NOT NULL,
  body       LONGBLOB NOT NULL,
  PRIMARY KEY (task_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
  PARTITION BY RANGE (task_id) (PARTITION d0 VALUES LESS THAN (:bound), PARTITION rest VALUES LESS THAN MAXVALUE);

-- One row per delivery. due_at never changes, so its index is written once per row. published_at: 1970 until then.
-- executor: the consumer that handled it. rule: which decided after it. epoch: the lease under which it was claimed: of many
-- tasks claimed at once only the attempts say so, until the confirm (src/core/machine/machine.h).
CREATE TABLE IF NOT EXISTS rung_attempts (
  task_id      BIGINT NOT NULL,
  attempt      INT NOT NULL,
  level        INT NOT NULL,
  due_at       DATETIME(3) NOT NULL,
  published_at DATETIME(3) NULL,
  outcome      ENUM('pending','succeeded','failed','timed_out','returned') NOT NULL DEFAULT 'pending',
  outcome_at   DATETIME(3) NULL,
  error        TEXT NULL,
  node         SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  executor     VARCHAR(255) NOT NULL DEFAULT '',
  rule         VARCHAR(255) NOT NULL DEFAULT '',
  epoch        BIGINT UNSIGNED NOT NULL DEFAULT 0,
  PRIMARY KEY (task_id, attempt),
  KEY by_due (due_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
  PARTITION BY RANGE (task_id) (PARTITION d0 VALUES LESS THAN (:bound), PARTITION rest VALUES LESS THAN MAXVALUE);

-- What was done by hand, and by whom. before_change and after_change: JSON objects of the changed fields. bulk_id: the bulk
-- that it was part of (0: none). part_of_bulk: the bulk that changed a task; 0: what a person did, a bulk as a whole too.
-- So the audit lists a bulk as one row.
CREATE TABLE IF NOT EXISTS rung_audit (
  id            BIGINT NOT NULL AUTO_INCREMENT,
  at            DATETIME(3) NOT NULL,
  who           VARCHAR(255) NOT NULL,
  what          VARCHAR(32) NOT NULL,
  task_id       BIGINT NOT NULL,
  before_change TEXT NOT NULL,
  after_change  TEXT NOT NULL,
  reason        TEXT NULL,
  bulk_id       BIGINT NOT NULL DEFAULT 0,
  part_of_bulk  BIGINT AS (CASE WHEN task_id = 0 THEN 0 ELSE bulk_id END) STORED,
  PRIMARY KEY (id),
  KEY by_task (task_id),
  KEY by_at (at),
  KEY by_log (part_of_bulk, at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- An action on many tasks. Its ids are in rung_bulk_items from the start; last_id is its progress, next_at the time at which
-- its rate allows the next step. stopped: by itself, where `aborted` is by a person. canary to stopped_because: of a redrive
-- that looks at its own outcome. even_reported: a redrive also of successes that were reported. changed_*: who last paused,
-- resumed or aborted it, and why.
CREATE TABLE IF NOT EXISTS rung_bulks (
  id              BIGINT NOT NULL AUTO_INCREMENT,
  action          ENUM('cancel','fire','redrive','discard','succeed','fail') NOT NULL,
  state           ENUM('running','paused','aborted','done','stopped') NOT NULL,
  filter          TEXT NOT NULL,
  reason          TEXT NOT NULL,
  queue           VARCHAR(255) NOT NULL DEFAULT '',
  exchange        VARCHAR(255) NOT NULL DEFAULT '',
  routing_key     VARCHAR(255) NOT NULL DEFAULT '',
  rate            DOUBLE NOT NULL DEFAULT 0,
  who             VARCHAR(255) NOT NULL,
  total           BIGINT NOT NULL DEFAULT 0,
  done            BIGINT NOT NULL DEFAULT 0,
  applied         BIGINT NOT NULL DEFAULT 0,
  refused         BIGINT NOT NULL DEFAULT 0,
  last_id         BIGINT NOT NULL DEFAULT 0,
  next_at         DATETIME(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  created_at      DATETIME(3) NOT NULL,
  finished_at     DATETIME(3) NULL,
  runner          VARCHAR(255) NOT NULL DEFAULT '',
  runner_until    DATETIME(3) NULL,
  even_reported   TINYINT NOT NULL DEFAULT 0,
  canary          BIGINT NOT NULL DEFAULT 0,
  watch_ms        BIGINT NULL,
  ramp            TINYINT NOT NULL DEFAULT 0,
  stop_above      DOUBLE NULL,
  canary_done     BIGINT NULL,
  stopped_because TEXT NULL,
  changed_at      DATETIME(3) NULL,
  changed_by      VARCHAR(255) NULL,
  changed_because TEXT NULL,
  PRIMARY KEY (id),
  KEY by_state (state)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- after_attempt: of a redrive or a fire, the last attempt before it changed the task. NULL: not yet, or there was nothing to
-- change.
CREATE TABLE IF NOT EXISTS rung_bulk_items (
  bulk_id       BIGINT NOT NULL,
  task_id       BIGINT NOT NULL,
  after_attempt INT NULL,
  PRIMARY KEY (bulk_id, task_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Events of the system itself: repaired topology, attachments, clock steps, a restored backup. kind is a constant word,
-- subject the affected queue, exchange or node.
CREATE TABLE IF NOT EXISTS rung_events (
  id      BIGINT NOT NULL AUTO_INCREMENT,
  at      DATETIME(3) NOT NULL,
  node    SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  kind    VARCHAR(64) NOT NULL,
  subject VARCHAR(255) NOT NULL DEFAULT '',
  detail  TEXT NOT NULL,
  PRIMARY KEY (id),
  KEY by_at (at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Settings that all instances share and people seldom read: written once, by the first instance. schema_version: when all of
-- this schema is there.
CREATE TABLE IF NOT EXISTS rung_settings (
  name  VARCHAR(64) NOT NULL,
  value VARCHAR(1024) NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Pauses of queues by hand. One row for each queue: its pause, or its last one. It is over once `until` has passed; resuming
-- sets `until` to now. The row stays, so that sidecars know until when the queue was paused. changed_at: gates are read by
-- what has changed.
CREATE TABLE IF NOT EXISTS rung_pauses (
  queue      VARCHAR(255) NOT NULL,
  length     SMALLINT UNSIGNED NOT NULL,
  since      DATETIME(3) NOT NULL,
  until      DATETIME(3) NULL,
  who        VARCHAR(255) NOT NULL,
  reason     TEXT NOT NULL,
  resumed_by VARCHAR(255) NOT NULL DEFAULT '',
  changed_at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  PRIMARY KEY (queue, length),
  KEY by_changed (changed_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- One row for each queue that has a gate; all instances share it.
-- breaker_detail: JSON, what src/core/gates/gates.h needs besides the columns.
-- hold_*: a consumer's retry-after that holds back the whole queue.
-- outside_*, limited_*: what instances saw: the queue is outside its window, tasks wait for a rate. Only for people.
CREATE TABLE IF NOT EXISTS rung_gates (
  queue          VARCHAR(255) NOT NULL,
  length         SMALLINT UNSIGNED NOT NULL,
  breaker        ENUM('closed','open','half_open') NOT NULL DEFAULT 'closed',
  breaker_since  DATETIME(3) NULL,
  breaker_until  DATETIME(3) NULL,
  breaker_reason TEXT NOT NULL,
  breaker_detail TEXT NOT NULL,
  hold_since     DATETIME(3) NULL,
  hold_until     DATETIME(3) NULL,
  hold_by        VARCHAR(255) NOT NULL DEFAULT '',
  outside_since  DATETIME(3) NULL,
  outside_until  DATETIME(3) NULL,
  outside_reason VARCHAR(255) NOT NULL DEFAULT '',
  limited_since  DATETIME(3) NULL,
  limited_until  DATETIME(3) NULL,
  limited_reason VARCHAR(255) NOT NULL DEFAULT '',
  seen_at        DATETIME(3) NOT NULL,
  changed_at     DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  PRIMARY KEY (queue, length),
  KEY by_changed (changed_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The latest batch of each instance, of changes of gates, and of counts (rung_promises, rung_activity): one whose answer was
-- lost is repeated, and must not count twice.
CREATE TABLE IF NOT EXISTS rung_batches (
  kind  ENUM('gates','counts') NOT NULL,
  maker VARCHAR(255) NOT NULL,
  batch VARCHAR(64) CHARACTER SET ascii NOT NULL,
  at    DATETIME(3) NOT NULL,
  PRIMARY KEY (kind, maker)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Whether the failures of queues reach us: silence after a delivery is a success only where a failure could have arrived, and
-- where the message can have been read (src/store/attachments.h). One row for each queue that has been attached at some time,
-- or (unattached) has been looked at. since: start of the state. attached_at: when it was last seen to be attached again; NULL:
-- it always was. checked_at: when it was last looked at for that. ready to marked_at: how far consumers have read the queue, by
-- looks until counted_at; NULL: none yet.
CREATE TABLE IF NOT EXISTS rung_attachments (
  queue       VARCHAR(255) NOT NULL,
  length      SMALLINT UNSIGNED NOT NULL,
  state       ENUM('attached','detached','gone','unattached') NOT NULL,
  since       DATETIME(3) NOT NULL,
  attached_at DATETIME(3) NULL,
  detail      VARCHAR(1000) NOT NULL DEFAULT '',
  checked_at  DATETIME(3) NOT NULL,
  ready       BIGINT NULL,
  consumers   BIGINT NULL,
  read_until  DATETIME(3) NULL,
  read_from   DATETIME(3) NULL,
  read_at     DATETIME(3) NULL,
  counted_at  DATETIME(3) NULL,
  mark        BIGINT NULL,
  marked_at   DATETIME(3) NULL,
  PRIMARY KEY (queue, length),
  KEY by_checked (checked_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Causes of failures (src/store/causes.h): a cause ends with its last task, and may come back. ignored_rate: failures of the hour
-- before it was ignored.
CREATE TABLE IF NOT EXISTS rung_causes (
  cause_id     CHAR(12) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  queue        VARCHAR(255) NOT NULL,
  error_type   VARCHAR(255) NOT NULL,
  sample       TEXT NOT NULL,
  first_seen   DATETIME(3) NOT NULL,
  last_seen    DATETIME(3) NOT NULL,
  scheduled    BIGINT NOT NULL DEFAULT 0,
  parked       BIGINT NOT NULL DEFAULT 0,
  succeeded    BIGINT NOT NULL DEFAULT 0,
  total        BIGINT NOT NULL DEFAULT 0,
  state        ENUM('new','known','working','ignored','resolved','regressed') NOT NULL DEFAULT 'new',
  owner        VARCHAR(255) NOT NULL DEFAULT '',
  note         TEXT NULL,
  link         VARCHAR(1000) NOT NULL DEFAULT '',
  ignored_rate BIGINT NOT NULL DEFAULT 0,
  worse_at     DATETIME(3) NULL,
  PRIMARY KEY (cause_id),
  KEY by_queue (queue)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- How a transaction changed the counts of a cause. Rows are added here, and every second to rung_causes: otherwise all
-- transactions with tasks of one cause would wait for its row. The view adds what has not been added yet.
CREATE TABLE IF NOT EXISTS rung_cause_changes (
  id        BIGINT NOT NULL AUTO_INCREMENT,
  cause_id  CHAR(12) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  at        DATETIME(3) NOT NULL,
  scheduled BIGINT NOT NULL,
  parked    BIGINT NOT NULL,
  succeeded BIGINT NOT NULL,
  total     BIGINT NOT NULL,
  failures  BIGINT NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Failures of five minutes. Kept for a day.
CREATE TABLE IF NOT EXISTS rung_cause_rates (
  cause_id CHAR(12) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  since    DATETIME(3) NOT NULL,
  failures BIGINT NOT NULL,
  PRIMARY KEY (cause_id, since),
  KEY by_since (since, cause_id, failures)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Promises of lateness (late_by): how many confirmed deliveries kept theirs. A row for each queue and five minutes (kept
-- for an hour), and for each queue and hour (kept for a day). queue: as it is counted, so also a pattern, or "(other)".
-- in_time + late + gated: all deliveries; gated: late, and only because of a gate.
CREATE TABLE IF NOT EXISTS rung_promises (
  queue   VARCHAR(255) NOT NULL,
  length  SMALLINT UNSIGNED NOT NULL,
  minutes SMALLINT UNSIGNED NOT NULL,
  since   DATETIME(3) NOT NULL,
  in_time BIGINT NOT NULL,
  late    BIGINT NOT NULL,
  gated   BIGINT NOT NULL,
  PRIMARY KEY (queue, length, minutes, since),
  KEY by_since (minutes, since)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What happened in each minute, by queue: deliveries that failed, retries that the broker confirmed, deliveries that
-- succeeded. queue: as in rung_promises; "(all)" is the sum of all. Kept for 30 days.
CREATE TABLE IF NOT EXISTS rung_activity (
  queue     VARCHAR(255) NOT NULL,
  length    SMALLINT UNSIGNED NOT NULL,
  minute    DATETIME(3) NOT NULL,
  failed    BIGINT NOT NULL,
  retried   BIGINT NOT NULL,
  succeeded BIGINT NOT NULL,
  PRIMARY KEY (queue, length, minute),
  KEY by_minute (minute)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The views of the contract: from the first release on, new columns are only appended. Columns are passed through unchanged,
-- so that a filter on a view is a filter on an indexed column. The views run with the rights of the user who creates them, so
-- that a user may read the views alone. If that user is dropped, `rung migrate` (or a start with store.migrate) creates them
-- again. Bodies and origins have views, and so rights, of their own.

-- A task that never failed has no first_failed_at (by CASE: MySQL 8 turns the result of NULLIF into text).
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_current AS
SELECT t.id AS retry_id, t.kind, t.queue, t.exchange, t.routing_key, t.tag, t.message_id, t.state, t.attempt,
       t.level, t.levels, t.ladder, t.next_due_at,
       CASE WHEN t.first_failed_at > '1970-01-01' THEN t.first_failed_at END AS first_failed_at, t.created_at,
       t.finished_at, t.finished_by, t.last_error, t.body_bytes, t.shard, n.name AS node,
       t.version, t.error_type, t.correlation_id, t.rule, t.uncounted_attempts, t.error_queue,
       CASE WHEN t.parent_id > 0 THEN t.parent_id END AS parent_id,
       CASE WHEN t.state = 'awaiting' THEN t.next_at END AS silence_ends_at, t.silence_means, t.silence_ms,
       t.max_attempts, t.ladder_pinned, t.by_exchange, t.cause_id,
       CASE WHEN t.replaced_by > 0 THEN t.replaced_by END AS replaced_by
FROM rung_tasks t
LEFT JOIN rung_nodes n ON n.id = t.node;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_history AS
SELECT a.task_id AS retry_id, t.queue, t.message_id, a.attempt, a.level, a.due_at,
       CASE WHEN a.published_at > '1970-01-01' THEN a.published_at END AS published_at,
       TIMESTAMPDIFF(MICROSECOND, a.due_at, CASE WHEN a.published_at > '1970-01-01' THEN a.published_at END) DIV 1000
         AS late_ms,
       a.outcome, a.outcome_at, a.error, n.name AS node, a.executor, a.rule
FROM rung_attempts a
JOIN rung_tasks t ON t.id = a.task_id
LEFT JOIN rung_nodes n ON n.id = a.node;

-- The length in GROUP BY distinguishes 'orders' from 'orders ', which are equal in the collation. The promise is the queue's,
-- so that each of its rows has the same figures. NULL: no promise, or no delivery in the last day. share: in_time of in_time
-- and late; a double, because a decimal would round 99,999 of 100,000 to 1.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_by_queue AS
SELECT q.queue, q.state, q.tasks, q.oldest_due_at, q.overdue,
       p.in_time_last_hour * 1e0 / NULLIF(p.in_time_last_hour + p.late_last_hour, 0) AS share_last_hour,
       p.in_time_last_hour, p.late_last_hour, p.gated_last_hour,
       p.in_time_last_day * 1e0 / NULLIF(p.in_time_last_day + p.late_last_day, 0) AS share_last_day,
       p.in_time_last_day, p.late_last_day, p.gated_last_day
FROM (
  SELECT t.queue, CHAR_LENGTH(t.queue) AS length, t.state, COUNT(*) AS tasks,
         MIN(CASE WHEN t.state = 'scheduled' THEN t.next_due_at END) AS oldest_due_at,
         COUNT(CASE WHEN t.state = 'scheduled' AND t.next_due_at < UTC_TIMESTAMP(3) THEN 1 END) AS overdue
  FROM rung_tasks t
  GROUP BY t.queue, CHAR_LENGTH(t.queue), t.state
) q
LEFT JOIN (
  SELECT queue, length,
         CAST(SUM(CASE WHEN minutes = 5 THEN in_time ELSE 0 END) AS SIGNED) AS in_time_last_hour,
         CAST(SUM(CASE WHEN minutes = 5 THEN late ELSE 0 END) AS SIGNED) AS late_last_hour,
         CAST(SUM(CASE WHEN minutes = 5 THEN gated ELSE 0 END) AS SIGNED) AS gated_last_hour,
         CAST(SUM(CASE WHEN minutes = 60 THEN in_time ELSE 0 END) AS SIGNED) AS in_time_last_day,
         CAST(SUM(CASE WHEN minutes = 60 THEN late ELSE 0 END) AS SIGNED) AS late_last_day,
         CAST(SUM(CASE WHEN minutes = 60 THEN gated ELSE 0 END) AS SIGNED) AS gated_last_day
  FROM rung_promises
  WHERE (minutes = 5 AND since > UTC_TIMESTAMP(3) - INTERVAL 1 HOUR)
     OR (minutes = 60 AND since > UTC_TIMESTAMP(3) - INTERVAL 1 DAY)
  GROUP BY queue, length
) p ON p.queue = q.queue AND p.length = q.length;

-- Each queue that has scheduled tasks or is held back. Tasks to an exchange have no queue and are not in it. Of several gates
-- that hold a queue back, the first of paused, outside_window, retry-after (also paused), breaker, rate_limited. A breaker or a
-- window that no instance has confirmed for a minute is not in force: it is no longer in the config. FORCE INDEX: by_due has all
-- that is read of rung_tasks. Each column of each SELECT has a name: MySQL names a nameless one after its expression, and a dump
-- with such a name of more than 64 characters cannot be imported (error 1166).
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_queues AS
SELECT s.queue, s.state, s.since, s.until, s.reason, s.`by`, s.waiting, s.next_at
FROM (
  SELECT g.queue, g.state, g.since, g.until, g.reason, g.`by`,
         CAST(SUM(g.waiting) OVER (PARTITION BY g.queue, g.length) AS SIGNED) AS waiting,
         MIN(g.next_at) OVER (PARTITION BY g.queue, g.length) AS next_at,
         ROW_NUMBER() OVER (PARTITION BY g.queue, g.length ORDER BY g.place) AS nth
  FROM (
    SELECT t.queue, CHAR_LENGTH(t.queue) AS length, 9 AS place, 'flowing' AS state,
           CAST(NULL AS DATETIME(3)) AS since, CAST(NULL AS DATETIME(3)) AS until, NULL AS reason, NULL AS `by`,
           COUNT(*) AS waiting, MIN(t.next_due_at) AS next_at
    FROM rung_tasks t FORCE INDEX (by_due)
    WHERE t.state = 'scheduled' AND t.queue <> ''
    GROUP BY t.queue, CHAR_LENGTH(t.queue)
    UNION ALL
    SELECT queue, length, 1 AS place, 'paused' AS state, since, until, reason, who AS `by`, 0 AS waiting, NULL AS next_at
    FROM rung_pauses
    WHERE until IS NULL OR until > UTC_TIMESTAMP(3)
    UNION ALL
    SELECT queue, length, 3 AS place, 'paused' AS state, hold_since AS since, hold_until AS until, hold_by AS reason,
           'retry-after' AS `by`, 0 AS waiting, NULL AS next_at
    FROM rung_gates
    WHERE hold_until > UTC_TIMESTAMP(3)
    UNION ALL
    SELECT queue, length, 2 AS place, 'outside_window' AS state, outside_since AS since, outside_until AS until,
           outside_reason AS reason, NULL AS `by`, 0 AS waiting, NULL AS next_at
    FROM rung_gates
    WHERE outside_until > UTC_TIMESTAMP(3) AND seen_at > UTC_TIMESTAMP(3) - INTERVAL 1 MINUTE
    UNION ALL
    SELECT queue, length, 4 AS place,
           IF(breaker = 'open' AND breaker_until > UTC_TIMESTAMP(3), 'breaker_open', 'breaker_half_open') AS state,
           breaker_since AS since, breaker_until AS until, breaker_reason AS reason, NULL AS `by`, 0 AS waiting, NULL AS next_at
    FROM rung_gates
    WHERE breaker <> 'closed' AND seen_at > UTC_TIMESTAMP(3) - INTERVAL 1 MINUTE
    UNION ALL
    SELECT queue, length, 5 AS place, 'rate_limited' AS state, limited_since AS since, limited_until AS until,
           limited_reason AS reason, NULL AS `by`, 0 AS waiting, NULL AS next_at
    FROM rung_gates
    WHERE limited_until > UTC_TIMESTAMP(3)
  ) g
) s
WHERE s.nth = 1;

-- awaiting: deliveries under way. held: those whose silence is held open until they are answered, or a person decides.
-- reason: where its dead letters go, or by what it is attached. ready, consumers: messages that wait in the queue, and its
-- consumers, when it was last looked at.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_attachments AS
SELECT a.queue, a.state, a.since, a.attached_at, a.detail AS reason, a.checked_at,
       (SELECT COUNT(*) FROM rung_tasks t WHERE t.state = 'awaiting' AND t.next_due_at IS NULL AND t.queue = a.queue
          AND CHAR_LENGTH(t.queue) = a.length) AS awaiting,
       (SELECT COUNT(*) FROM rung_tasks t WHERE t.state = 'awaiting' AND t.next_due_at IS NULL AND t.queue = a.queue
          AND CHAR_LENGTH(t.queue) = a.length AND t.next_at IS NULL) AS held,
       a.ready, a.consumers
FROM rung_attachments a;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_causes AS
SELECT c.cause_id, c.queue, c.error_type, c.sample, c.first_seen,
       GREATEST(c.last_seen, COALESCE(d.last_seen, c.last_seen)) AS last_seen,
       CAST(c.scheduled + COALESCE(d.scheduled, 0) AS SIGNED) AS scheduled,
       CAST(c.parked + COALESCE(d.parked, 0) AS SIGNED) AS parked,
       CAST(c.succeeded + COALESCE(d.succeeded, 0) AS SIGNED) AS succeeded,
       CAST(c.total + COALESCE(d.total, 0) AS SIGNED) AS total,
       CAST(COALESCE(r.failures, 0) + COALESCE(d.failures, 0) AS SIGNED) AS last_hour,
       c.state, c.owner, c.note, c.link, c.worse_at
FROM rung_causes c
LEFT JOIN (
  SELECT cause_id, MAX(CASE WHEN failures > 0 THEN at END) AS last_seen, SUM(scheduled) AS scheduled,
         SUM(parked) AS parked, SUM(succeeded) AS succeeded, SUM(total) AS total, SUM(failures) AS failures
  FROM rung_cause_changes
  GROUP BY cause_id
) d ON d.cause_id = c.cause_id
LEFT JOIN (
  SELECT cause_id, SUM(failures) AS failures
  FROM rung_cause_rates
  WHERE since > UTC_TIMESTAMP(3) - INTERVAL 1 HOUR
  GROUP BY cause_id
) r ON r.cause_id = c.cause_id;

-- Without the totals of all queues ("(all)"): a SUM over the rows would count them twice.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_activity AS
SELECT minute, queue, failed, retried, succeeded
FROM rung_activity
WHERE queue <> '(all)';

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_bulks AS
SELECT id AS bulk_id, action, state, filter, reason, queue, exchange, routing_key, rate, who, total, done, applied,
       refused, created_at, finished_at, runner, canary, watch_ms, ramp, stop_above, stopped_because, changed_at, changed_by, changed_because
FROM rung_bulks;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_audit AS
SELECT u.id AS audit_id, u.at, u.who, u.what, u.task_id AS retry_id, u.before_change, u.after_change,
       CASE WHEN u.reason <> '' THEN u.reason END AS reason, CASE WHEN u.bulk_id > 0 THEN u.bulk_id END AS bulk_id,
       u.part_of_bulk
FROM rung_audit u;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_events AS
SELECT e.id AS event_id, e.at, n.name AS node, e.kind, e.subject, e.detail
FROM rung_events e
LEFT JOIN rung_nodes n ON n.id = e.node;

-- Headers listed under index_headers.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_headers AS
SELECT task_id AS retry_id, name, value FROM rung_task_headers;

-- What a message brought along when it failed: x-death, headers about the failure. JSON.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_origins AS
SELECT task_id AS retry_id, origin FROM rung_bodies;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_bodies AS
SELECT task_id AS retry_id, properties, headers, body FROM rung_bodies;
