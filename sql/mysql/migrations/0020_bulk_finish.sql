-- Bulks that finish tasks on behalf of their consumers.
ALTER TABLE rung_bulks MODIFY action ENUM('cancel','fire','redrive','discard','succeed','fail') NOT NULL;
