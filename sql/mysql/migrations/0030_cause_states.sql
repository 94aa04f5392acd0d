-- A cause ends with its last task, and may come back (src/store/causes.h). DROP counts as done if the column is gone.
ALTER TABLE rung_causes
  DROP COLUMN version,
  MODIFY state ENUM('new','known','working','ignored','resolved','regressed') NOT NULL DEFAULT 'new';
