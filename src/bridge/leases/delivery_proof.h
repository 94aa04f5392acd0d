// Checks that a result, or a failure that names one of our tasks, comes from the consumer that had the
// delivery: it must carry the delivery's retry-token (src/core/message/identity.h). All instances share
// the key, in rung_settings; until it is read, nothing is published and no result is accepted. Thread: the
// loop's, except for read().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "src/bridge/base/store_jobs.h"
#include "src/core/base/clock.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/message/identity.h"
#include "src/core/task/task.h"
#include "src/io/loop.h"
#include "src/store/system.h"

namespace rung::bridge {

class DeliveryProof {
 public:
  // What a message on rung.results or rung.failed says about its delivery.
  struct Claim {
    TaskId id;
    int attempt = 0;  // 0 = not given
    std::string_view token;
  };
  struct Refused {
    std::int64_t results = 0, failures = 0;
  };

  // `required`: results.require_token of the config.
  DeliveryProof(const Clock& clock, bool required) : clock_(clock), required_(required) {}

  // The key, 64 hex digits. On a store thread. Creates it if there is none.
  static Result<std::string> read(Store& store);
  // False if the key is invalid: nothing is published then.
  bool set(const std::string& key);
  bool ready() const { return tokens_.has_value(); }

  // The token header for the current attempt. REQUIRES: ready().
  std::string token(const Task& task) const {
    RUNG_REQUIRE(ready());
    return tokens_->token(task.id, task.attempt, task.digest, task.copy_number);
  }
  // Whether the claim carries the right token. REQUIRES: ready().
  bool proven(const Claim& claim) const {
    RUNG_REQUIRE(ready());
    return tokens_->proves(claim.token, claim.id, claim.attempt);
  }

  // Whether to accept a result, or a failure, that names a task. Refusals are counted, and logged at most
  // every ten seconds. REQUIRES: ready().
  bool takes_result(const Claim& claim);
  bool takes_failure(const Claim& claim);
  Refused refused() const { return refused_; }

 private:
  bool believes(const Claim& claim) const { return !required_ || proven(claim); }
  void tell(const Claim& claim, std::string_view what);

  const Clock& clock_;
  const bool required_;
  std::optional<DeliveryTokens> tokens_;
  Refused refused_;
  std::int64_t told_ = 0;  // how many of `refused_`, both kinds, are logged
  BootMs tell_again_{0};
};

// Reads the key of the delivery tokens from the database, and retries while the key is unusable: a person has
// to fix it. Thread: the loop's.
class TokenKeyReader {
 public:
  // `ready`: the proof has its key from now on.
  TokenKeyReader(io::Loop& loop, StoreJobs& jobs, DeliveryProof& proof, std::function<void()> ready);

  void read();
  void drain() { draining_ = true; }  // a read under way is the last

 private:
  void arrived(const Result<std::string>& key);

  StoreJobs& jobs_;
  DeliveryProof& proof_;
  const std::function<void()> ready_;
  io::Timer timer_;
  bool draining_ = false;
};

}  // namespace rung::bridge
