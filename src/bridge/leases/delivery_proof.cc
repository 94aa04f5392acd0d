#include "src/bridge/leases/delivery_proof.h"

#include <utility>

#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {

namespace {

constexpr Ms kBetweenWarnings{10'000};

}  // namespace

Jobs::Work DeliveryProof::read_key(std::function<void()> ready) {
  return [this, ready = std::move(ready)](Store& store) -> Result<Jobs::Then> {
    const auto key = store.setting("result_token_key", DeliveryTokens::new_key());
    if (!key) return tl::unexpected(key.error());
    if (!DeliveryTokens::from_hex(*key)) {
      const char* reason = "result_token_key in rung_settings is not 64 hex digits: delete that row";
      log::error("delivery token key unusable: publishing and results are stopped", {{"reason", reason}});
      return permanent(reason);
    }
    return [this, ready, key = *key] {
      set(key);
      ready();
    };
  };
}

void DeliveryProof::set(const std::string& key) {
  tokens_ = DeliveryTokens::from_hex(key);
  RUNG_REQUIRE(ready());
  if (!required_)
    log::warn(
        "results are accepted without retry-token: anyone who may write to rung.results can finish any task",
        {{"because", "results.require_token is false"}});
}

bool DeliveryProof::takes_result(const Claim& claim) {
  if (believes(claim)) return true;
  ++refused_.results;
  tell(claim, "a result without the delivery's retry-token changes nothing");
  return false;
}

bool DeliveryProof::takes_failure(const Claim& claim) {
  if (believes(claim) || planted(Bug::failure_of_another_counted)) return true;
  ++refused_.failures;
  tell(claim, "a failed message names a task without its delivery's retry-token: taken in as new");
  return false;
}

void DeliveryProof::tell(const Claim& claim, std::string_view what) {
  const BootMs now = clock_.boot();
  if (now < tell_again_) return;
  tell_again_ = now + kBetweenWarnings;
  const std::int64_t all = refused_.results + refused_.failures;
  log::warn(what, {{"id", claim.id.value},
                   {"attempt", claim.attempt},
                   {"token", claim.token.empty() ? "missing" : "wrong"},
                   {"since_last_warning", all - told_}});
  told_ = all;
}

}  // namespace rung::bridge
