// Checks that a result, or a failure that names one of our tasks, comes from the consumer that had the
// delivery: it must carry the delivery's retry-token (src/core/message/identity.h). All instances share
// the key, in rung_settings; until it is read, nothing is published and no result is accepted. Thread: the
// loop's.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "src/bridge/base/sidecar.h"
#include "src/bridge/leases/jobs.h"

namespace rung::bridge {

class DeliveryProof {
 public:
  explicit DeliveryProof(const Sidecar& sidecar) : sidecar_(sidecar) {}

  // Reads the key, and creates it if there is none; then calls `ready`. A key that is unusable is an error: a
  // person has to mend it.
  Jobs::Work read_key(std::function<void()> ready);
  // REQUIRES: 64 hex digits.
  void set(const std::string& key);
  bool ready() const { return tokens_.has_value(); }

  // The token header for the current attempt. REQUIRES: ready().
  std::string token(const Task& task) const {
    RUNG_REQUIRE(ready());
    return tokens_->token(task.id, task.attempt, task.digest, task.copy_number);
  }

  // Whether to accept a result, or a failure, that names this task; then `said` has what the token proves:
  // attempt (even without retry-attempt) and publish. Refusals are counted and logged. REQUIRES: ready().
  enum class Kind { result, failure };
  bool accepts(TaskId id, std::string_view token, event::Failed& said, Kind kind);

 private:
  const Sidecar& sidecar_;
  std::optional<DeliveryTokens> tokens_;
};

}  // namespace rung::bridge
