-- Which parked copy's failure reopened a task last (src/core/task/task.h). ADD counts as done if the column already
-- exists.
ALTER TABLE rung_tasks ADD COLUMN came_back INT UNSIGNED NOT NULL DEFAULT 0;
