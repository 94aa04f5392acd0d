// Collects what became of messages during a turn and delivers it at the end: results to the sink, and
// messages to another publisher. Thread: one thread per object.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/rights_check.h"

namespace rung::rabbit {

class PublishOutcomes {
 public:
  using How = PublishResult::How;
  using PassOn = std::function<void(std::vector<Outgoing>)>;

  // REQUIRES: `sink` outlives it.
  PublishOutcomes(BrokerSink& sink, PassOn pass_on) : sink_(sink), pass_on_(std::move(pass_on)) {}

  void result(std::uint64_t token, How how, std::string reason) {
    if (token != RightsCheck::kToken) results_.push_back({token, how, std::move(reason)});
  }
  // For callers that append several results; those may include the result of the rights check.
  std::vector<PublishResult>& results() { return results_; }
  void pass_on(Outgoing outgoing) { passed_on_.push_back(std::move(outgoing)); }

  void hand_over() {
    if (!passed_on_.empty()) pass_on_(std::exchange(passed_on_, {}));
    std::erase_if(results_, [](const PublishResult& one) { return one.token == RightsCheck::kToken; });
    if (!results_.empty()) sink_.on_published(std::exchange(results_, {}));
  }

 private:
  BrokerSink& sink_;
  const PassOn pass_on_;
  std::vector<PublishResult> results_;
  std::vector<Outgoing> passed_on_;
};

}  // namespace rung::rabbit
