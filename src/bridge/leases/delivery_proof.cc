#include "src/bridge/leases/delivery_proof.h"

#include <utility>

#include "src/bridge/base/flow_counts.h"
#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {

Jobs::Work DeliveryProof::read_key(std::function<void()> ready) {
  return [this, ready = std::move(ready)](Store& store) {
    const std::string key = store.setting("result_token_key", DeliveryTokens::new_key());
    if (!DeliveryTokens::from_hex(key)) {
      const char* reason = "result_token_key in rung_settings is not 64 hex digits: delete that row";
      log::error("delivery token key unusable: publishing and results are stopped", {{"reason", reason}});
      throw StoreError({Error::Kind::permanent, reason});
    }
    return [this, ready, key] {
      set(key);
      ready();
    };
  };
}

void DeliveryProof::set(const std::string& key) {
  tokens_ = DeliveryTokens::from_hex(key);
  RUNG_REQUIRE(ready());
  if (!sidecar_.settings.require_token)
    log::warn(
        "results are accepted without retry-token: anyone who may write to rung.results can finish any task",
        {{"because", "results.require_token is false"}});
}

bool DeliveryProof::accepts(TaskId id, std::string_view token, event::Failed& said, Kind kind) {
  RUNG_REQUIRE(ready());
  said.proven = tokens_->proves(token, id, said.attempt);
  if (said.proven) {
    said.attempt = attempt_of_token(token);
    said.publish = publish_of_token(token);
    return true;
  }
  const bool is_result = kind == Kind::result;
  if (!sidecar_.settings.require_token || (!is_result && planted(Bug::failure_of_another_counted)))
    return true;
  Totals& totals = sidecar_.counts.totals;
  ++(is_result ? totals.refused_results : totals.refused_failures);
  log::warn(is_result ? "a result without the delivery's retry-token changes nothing"
                      : "a failed message names a task without its delivery's retry-token: taken in as new",
            {{"id", id.value}, {"attempt", said.attempt}, {"token", token.empty() ? "missing" : "wrong"}});
  return false;
}

}  // namespace rung::bridge
