-- How far queues have been read: silence begins when the message can have been read (src/store/attachments.h). NULL:
-- nobody has counted. unattached: the row is there for these columns alone. ADD counts as done if the column already
-- exists.
ALTER TABLE rung_attachments
  MODIFY COLUMN state ENUM('attached','detached','gone','unattached') NOT NULL,
  ADD COLUMN ready      BIGINT NULL,
  ADD COLUMN consumers  BIGINT NULL,
  ADD COLUMN read_until DATETIME(3) NULL,
  ADD COLUMN read_from  DATETIME(3) NULL,
  ADD COLUMN read_at    DATETIME(3) NULL;

-- As in 0017_attachments. ready, consumers: messages that wait in the queue, and its consumers, when it was last looked at.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_attachments AS
SELECT a.queue, a.state, a.since, a.attached_at, a.detail AS reason, a.checked_at,
       (SELECT COUNT(*) FROM rung_tasks t WHERE t.state = 'awaiting' AND t.next_due_at IS NULL AND t.queue = a.queue
          AND CHAR_LENGTH(t.queue) = a.length) AS awaiting,
       (SELECT COUNT(*) FROM rung_tasks t WHERE t.state = 'awaiting' AND t.next_due_at IS NULL AND t.queue = a.queue
          AND CHAR_LENGTH(t.queue) = a.length AND t.next_at IS NULL) AS held,
       a.ready, a.consumers
FROM rung_attachments a;
