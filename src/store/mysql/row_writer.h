// Writes changed tasks, attempts and audit rows: one statement for all rows with the same change, one for the
// rest. All statements are queued (Session::later); an error is thrown where they are sent.
// Thread: the session's.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "src/core/machine/audit.h"
#include "src/core/task/task.h"
#include "src/store/attempts.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {

struct ChangedTask {
  const Task* before = nullptr;
  const Task* after = nullptr;
  bool short_claim = false;  // the row does not show the claim of `before` yet
};

class RowWriter {
 public:
  // `repeated`: an earlier try of the transaction was undone because a row was not as expected.
  RowWriter(Session& session, bool repeated) : session_(session), repeated_(repeated) {}

  // REQUIRES: the rows are locked; `tasks` in order of ids.
  void write(std::span<const ChangedTask> tasks);
  // The same for rows that were not read: calls `guard`, then queues statements by which the transaction is
  // undone and repeated if a row is no longer as it was `before`. False, and nothing is done, if that would
  // take too many of them.
  bool write_unread(std::span<const ChangedTask> tasks, const std::function<void()>& guard);
  void write(const AttemptChanges& attempts);
  void write(const std::vector<AuditRow>& audit);

 private:
  Session& session_;
  const bool repeated_;
};

}  // namespace rung::mysql
