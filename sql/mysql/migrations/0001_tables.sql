-- The tables. Every statement may be repeated: DDL commits implicitly, so an interrupted migration is run
-- again from its beginning.
--
-- Times are DATETIME(3), UTC. Words are ENUMs in the order of src/core/task/task.h: append only.
-- Names of queues and the like are utf8mb4_bin: case-sensitive. That collation pads with spaces when it
-- compares, so queries that must distinguish 'a' from 'a ' compare the length too.
-- Ids are ordered by time (src/core/base/ids.h): a range of ids is a range of time, which allows partitions by id.
-- There are no foreign keys, and only intake_key is unique besides the keys.

CREATE TABLE IF NOT EXISTS rung_nodes (
  id          SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT,
  name        VARCHAR(255) NOT NULL,
  incarnation BIGINT UNSIGNED NOT NULL,
  started_at  DATETIME(3) NOT NULL,
  seen_at     DATETIME(3) NOT NULL,
  expires_at  DATETIME(3) NOT NULL,
  version     VARCHAR(64) NOT NULL DEFAULT '',
  address     VARCHAR(255) NOT NULL DEFAULT '',
  PRIMARY KEY (id),
  UNIQUE KEY by_name (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS rung_shards (
  id          SMALLINT UNSIGNED NOT NULL,
  owner       SMALLINT UNSIGNED NULL,
  epoch       BIGINT UNSIGNED NOT NULL DEFAULT 0,
  expires_at  DATETIME(3) NULL,
  acquired_at DATETIME(3) NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT IGNORE INTO rung_shards (id) VALUES
  (0),(1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11),(12),(13),(14),(15),
  (16),(17),(18),(19),(20),(21),(22),(23),(24),(25),(26),(27),(28),(29),(30),(31),
  (32),(33),(34),(35),(36),(37),(38),(39),(40),(41),(42),(43),(44),(45),(46),(47),
  (48),(49),(50),(51),(52),(53),(54),(55),(56),(57),(58),(59),(60),(61),(62),(63);

-- Every step of a task moves its entry in by_shard and in by_due, in no other index. A third moving index
-- (queue, state, next_due_at) doubled the cost of a step: 68 us of the server's CPU instead of 34 (18 with
-- none).
--
-- next_at drives the state machine: in awaiting it is the end of silence, in parked it means that a copy is
-- still to be published. next_due_at is for people: when the message comes (back) to its queue. It is a
-- stored generated column, so that it can be indexed and the views pass it through.
CREATE TABLE IF NOT EXISTS rung_tasks (
  id              BIGINT NOT NULL,
  shard           SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  state           ENUM('scheduled','publishing','awaiting','succeeded','parked','cancelled','discarded') NOT NULL DEFAULT 'scheduled',
  kind            ENUM('retry','delay') NOT NULL DEFAULT 'retry',
  next_at         DATETIME(3) NULL,
  next_due_at     DATETIME(3) GENERATED ALWAYS AS (IF(state + 0 <= 2, next_at, NULL)) STORED,
  attempt         INT NOT NULL DEFAULT 0,
  level           INT NOT NULL DEFAULT 1,
  levels          INT NOT NULL DEFAULT 0,
  max_attempts    INT NOT NULL DEFAULT 0,
  ladder          VARCHAR(255) NOT NULL DEFAULT '',
  ladder_pinned   TINYINT NOT NULL DEFAULT 0,
  epoch           BIGINT UNSIGNED NOT NULL DEFAULT 0,
  node            SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  queue           VARCHAR(255) NOT NULL DEFAULT '',
  exchange        VARCHAR(255) NOT NULL DEFAULT '',
  routing_key     VARCHAR(255) NOT NULL DEFAULT '',
  tag             VARCHAR(255) NOT NULL DEFAULT '',
  message_id      VARCHAR(255) NOT NULL DEFAULT '',
  first_failed_at DATETIME(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  created_at      DATETIME(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  finished_at     DATETIME(3) NULL,
  finished_by     ENUM('reported','presumed') NULL,
  last_error      TEXT NULL,
  error_type      VARCHAR(255) NOT NULL DEFAULT '',
  body_bytes      BIGINT NOT NULL DEFAULT 0,
  intake_key      BINARY(16) NULL,
  PRIMARY KEY (id),
  UNIQUE KEY by_intake_key (intake_key),
  KEY by_shard (state, shard, next_at),           -- the window, the sweep, silence
  KEY by_due (state, next_due_at, queue),         -- people: due and parked tasks; all of retry_by_queue
  KEY by_queue (queue),
  KEY by_message (message_id),
  KEY by_created (created_at),
  KEY by_finished (finished_at)                   -- moves once; reports, and retention to come
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Separate from the tasks, which are rewritten at every step: with bodies inline and a small buffer pool a
-- reschedule was 12 times slower.
CREATE TABLE IF NOT EXISTS rung_bodies (
  task_id    BIGINT NOT NULL,
  properties MEDIUMTEXT NOT NULL,
  headers    MEDIUMTEXT NULL,
  origin     MEDIUMTEXT NOT NULL,
  body       LONGBLOB NOT NULL,
  PRIMARY KEY (task_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- One row per delivery. due_at never changes, so its index is written once per row.
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
  PRIMARY KEY (task_id, attempt),
  KEY by_due (due_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
