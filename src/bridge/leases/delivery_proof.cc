#include "src/bridge/leases/delivery_proof.h"

#include <charconv>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {

namespace {

constexpr int kFirstWithTokens = 7;  // schema of the first release whose deliveries carry retry-token
constexpr Ms kBetweenWarnings{10'000};

bool made_with_tokens(const std::string& version) {
  int number = 0;
  std::from_chars(version.data(), version.data() + version.size(), number);
  return number >= kFirstWithTokens;
}

}  // namespace

Result<DeliveryProof::Shared> DeliveryProof::read(SystemStore& store) {
  auto key = store.setting("result_token_key", DeliveryTokens::new_key());
  if (!key) return tl::unexpected(key.error());
  auto since = store.setting("installed_at_schema", "");
  if (!since) return tl::unexpected(since.error());
  return Shared{*std::move(key), *std::move(since)};
}

bool DeliveryProof::set(const Shared& shared) {
  tokens_ = DeliveryTokens::from_hex(shared.key);
  if (!tokens_) return false;
  required_ = configured_.value_or(made_with_tokens(shared.made_since));
  if (!required_) {
    log::warn(
        "results are accepted without retry-token: anyone who may write to rung.results can finish any task",
        {{"because", configured_ ? "results.require_token is false"
                                 : "an earlier release made the database; write results: { "
                                   "require_token: true } when all consumers copy retry-token"}});
  }
  return true;
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

namespace {

constexpr Ms kReadKeyAgain{5000};

}  // namespace

TokenKeyReader::TokenKeyReader(io::Loop& loop, StoreJobs& jobs, DeliveryProof& proof,
                               std::function<void()> ready)
    : jobs_(jobs), proof_(proof), ready_(std::move(ready)), timer_(loop, [this] { read(); }) {}

void TokenKeyReader::read() {
  jobs_.submit<DeliveryProof::Shared>(
      Lane::flow, [](SystemStore& store) { return DeliveryProof::read(store); },
      [this](const Result<DeliveryProof::Shared>& shared) { arrived(shared); });
}

void TokenKeyReader::arrived(const Result<DeliveryProof::Shared>& shared) {
  if (shared && proof_.set(*shared)) return ready_();
  log::error("delivery token key unusable: publishing and results are stopped",
             {{"reason", shared ? "result_token_key in rung_settings is not 64 hex digits: delete that row"
                                : shared.error().message}});
  if (!draining_) timer_.start(kReadKeyAgain);
}

}  // namespace rung::bridge
