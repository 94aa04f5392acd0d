-- Which of a task's published copies is the current one (src/core/task/task.h). ADD counts as done if the column
-- already exists.
ALTER TABLE rung_tasks ADD COLUMN copy_number INT UNSIGNED NOT NULL DEFAULT 0;
