-- Events for other systems, until they are published to <prefix>.events (src/store/outgoing_events.h).
CREATE TABLE IF NOT EXISTS rung_outgoing_events (
  id      BIGINT NOT NULL AUTO_INCREMENT,
  at      DATETIME(3) NOT NULL,
  kind    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  subject VARCHAR(64) NOT NULL,
  queue   VARCHAR(255) NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
