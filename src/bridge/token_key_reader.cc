#include "src/bridge/token_key_reader.h"

#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
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
