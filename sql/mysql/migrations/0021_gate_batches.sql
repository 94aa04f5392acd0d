-- Gates are read by what has changed, and written for many queues at once. changed_at is set by whoever changes a row,
-- an older sidecar included. ADD counts as done if the column already exists.
ALTER TABLE rung_gates
  ADD COLUMN changed_at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  ADD KEY by_changed (changed_at);

ALTER TABLE rung_pauses
  ADD COLUMN changed_at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  ADD KEY by_changed (changed_at);

-- The latest batch of changes of each instance: one whose answer was lost is repeated, and must not count twice.
CREATE TABLE IF NOT EXISTS rung_gate_batches (
  maker VARCHAR(255) NOT NULL,
  batch VARCHAR(64) CHARACTER SET ascii NOT NULL,
  at    DATETIME(3) NOT NULL,
  PRIMARY KEY (maker)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
