-- stopped: by itself, where `aborted` is by a person. changed_by: who last paused, resumed or aborted it, and why.
ALTER TABLE rung_bulks
  MODIFY state ENUM('running','paused','aborted','done','stopped') NOT NULL,
  ADD COLUMN changed_at      DATETIME(3) NULL,
  ADD COLUMN changed_by      VARCHAR(255) NULL,
  ADD COLUMN changed_because TEXT NULL;

-- The bulk that changed a task; 0: what a person did, a bulk as a whole too. So the audit lists a bulk as one row.
ALTER TABLE rung_audit
  ADD COLUMN part_of_bulk BIGINT AS (CASE WHEN task_id = 0 THEN 0 ELSE bulk_id END) STORED,
  ADD KEY by_log (part_of_bulk, at);

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_audit AS
SELECT u.id AS audit_id, u.at, u.who, u.what, u.task_id AS retry_id, u.before_change, u.after_change,
       CASE WHEN u.reason <> '' THEN u.reason END AS reason, CASE WHEN u.bulk_id > 0 THEN u.bulk_id END AS bulk_id,
       u.part_of_bulk
FROM rung_audit u;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_bulks AS
SELECT id AS bulk_id, action, state, filter, reason, queue, exchange, routing_key, rate, who, total, done, applied, refused, created_at, finished_at, runner,
       canary, watch_ms, ramp, stop_above, stopped_because, changed_at, changed_by, changed_because
FROM rung_bulks;
