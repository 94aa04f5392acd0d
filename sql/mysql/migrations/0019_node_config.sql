-- A fingerprint of each instance's effective config, written with its heartbeat: `rung nodes` marks those that differ. ''
-- from a release that has none. ADD counts as done if the column already exists.
ALTER TABLE rung_nodes ADD COLUMN config VARCHAR(32) CHARACTER SET ascii NOT NULL DEFAULT '';
