-- What the history is made of, in parts by the time at which its tasks were taken in: a part that is over is dropped as a
-- file is, whatever it holds. Two to begin with: `d0`, all up to the end of tomorrow (UTC), and `rest`, which stays
-- empty: whoever does the upkeep cuts days off it before they begin (sql/statements/retention.sql). An id is ms since
-- 2025-01-01 << 22 (src/core/ids.h). rung_tasks stays whole: its unique intake_key is not of the id.
--
-- Prepared, because a bound that depends on today is no constant; and only where it isn't done yet, for what was cut
-- short is run again. Each table is rewritten once.

SET @rung_bound = (SELECT COALESCE(MIN(CAST(partition_description AS SIGNED)),
    TIMESTAMPDIFF(SECOND, '2025-01-01', UTC_DATE() + INTERVAL 2 DAY) * 1000 * 4194304)
  FROM information_schema.partitions
  WHERE table_schema = DATABASE() AND table_name = 'rung_attempts' AND partition_name = 'd0');

SET @rung_ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', CONCAT('ALTER TABLE rung_attempts PARTITION BY RANGE (task_id) ',
    '(PARTITION d0 VALUES LESS THAN (', @rung_bound, '), PARTITION rest VALUES LESS THAN MAXVALUE)'))
  FROM information_schema.partitions
  WHERE table_schema = DATABASE() AND table_name = 'rung_attempts' AND partition_name IS NOT NULL);
PREPARE rung_ddl FROM @rung_ddl;
EXECUTE rung_ddl;
DEALLOCATE PREPARE rung_ddl;

SET @rung_ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', CONCAT('ALTER TABLE rung_bodies PARTITION BY RANGE (task_id) ',
    '(PARTITION d0 VALUES LESS THAN (', @rung_bound, '), PARTITION rest VALUES LESS THAN MAXVALUE)'))
  FROM information_schema.partitions
  WHERE table_schema = DATABASE() AND table_name = 'rung_bodies' AND partition_name IS NOT NULL);
PREPARE rung_ddl FROM @rung_ddl;
EXECUTE rung_ddl;
DEALLOCATE PREPARE rung_ddl;
