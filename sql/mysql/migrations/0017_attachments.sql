-- Whether the failures of queues reach us: silence after a delivery is a success only where a failure could have
-- arrived. One row for each queue that has been attached at some time. length: as in rung_pauses.
-- since: start of the state. attached_at: when it was last seen to be attached again; NULL: it always was.
CREATE TABLE IF NOT EXISTS rung_attachments (
  queue       VARCHAR(255) NOT NULL,
  length      SMALLINT UNSIGNED NOT NULL,
  state       ENUM('attached','detached','gone') NOT NULL,
  since       DATETIME(3) NOT NULL,
  attached_at DATETIME(3) NULL,
  detail      VARCHAR(1000) NOT NULL DEFAULT '',
  checked_at  DATETIME(3) NOT NULL,
  PRIMARY KEY (queue, length),
  KEY by_checked (checked_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The queues that the config names, or has named (removed_at): what silence means for deliveries made before they were
-- removed. silence_*: as in rung_tasks.
CREATE TABLE IF NOT EXISTS rung_queues (
  queue         VARCHAR(255) NOT NULL,
  length        SMALLINT UNSIGNED NOT NULL,
  silence_means ENUM('success','failure') NOT NULL,
  silence_ms    BIGINT NOT NULL,
  removed_at    DATETIME(3) NULL,
  PRIMARY KEY (queue, length)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- A redrive also of successes that were reported. ADD counts as done if the column already exists.
ALTER TABLE rung_bulks ADD COLUMN even_reported TINYINT NOT NULL DEFAULT 0;

-- awaiting: deliveries under way. held: those whose silence is held open until they are answered, or a person
-- decides. reason: where its dead letters go, or by what it is attached.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_attachments AS
SELECT a.queue, a.state, a.since, a.attached_at, a.detail AS reason, a.checked_at,
       (SELECT COUNT(*) FROM rung_tasks t WHERE t.state = 'awaiting' AND t.next_due_at IS NULL AND t.queue = a.queue
          AND CHAR_LENGTH(t.queue) = a.length) AS awaiting,
       (SELECT COUNT(*) FROM rung_tasks t WHERE t.state = 'awaiting' AND t.next_due_at IS NULL AND t.queue = a.queue
          AND CHAR_LENGTH(t.queue) = a.length AND t.next_at IS NULL) AS held
FROM rung_attachments a;
