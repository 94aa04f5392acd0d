// Whether a result, or a failure that names one of our tasks, comes from whoever had the delivery: it shows
// the delivery's retry-token (src/core/delivery_token.h). The key is shared by all instances, in
// rung_settings; until it is read nothing is published and no result is taken. Thread: the loop's, but for
// read().
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/core/clock.h"
#include "src/core/delivery_token.h"
#include "src/core/task.h"
#include "src/core/time.h"
#include "src/store/system.h"

namespace rung::bridge {

class DeliveryProof {
 public:
  // What a message on rung.results or rung.failed says of the delivery that it is about.
  struct Claim {
    TaskId id;
    int attempt = 0;  // 0 = not said
    std::string_view token;
  };
  struct Shared {
    std::string key;         // 64 hex digits
    std::string made_since;  // the schema's version when the database was made: "7"
  };
  struct Refused {
    std::int64_t results = 0, failures = 0;
  };

  // `required`: results.require_token of the config; none: where this release or a later one made the
  // database.
  DeliveryProof(const Clock& clock, std::optional<bool> required) : clock_(clock), configured_(required) {}

  // On a store thread. Makes the key where there is none.
  static Result<Shared> read(SystemStore& store);
  // False where the key is none: nothing is published then.
  bool set(const Shared& shared);
  bool ready() const { return tokens_.has_value(); }

  // The header of the attempt under way. REQUIRES: ready().
  std::string token(const Task& task) const { return tokens_->token(task.id, task.attempt); }
  // Whether the claim shows the right token. REQUIRES: ready().
  bool proven(const Claim& claim) const { return tokens_->proves(claim.token, claim.id, claim.attempt); }

  // What to do about a result, or a failure, that names a task. A refusal is counted and, ten seconds apart,
  // logged. REQUIRES: ready().
  bool takes_result(const Claim& claim);
  bool takes_failure(const Claim& claim);
  Refused refused() const { return refused_; }

 private:
  bool believes(const Claim& claim) const { return !required_ || proven(claim); }
  void tell(const Claim& claim, std::string_view what);

  const Clock& clock_;
  const std::optional<bool> configured_;
  bool required_ = true;
  std::optional<DeliveryTokens> tokens_;
  Refused refused_;
  std::int64_t told_ = 0;  // of `refused_`, both
  BootMs tell_again_{0};
};

}  // namespace rung::bridge
