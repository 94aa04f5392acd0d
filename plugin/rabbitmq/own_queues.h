// The queues <prefix>.failed, .results and .delay, as a Consumer consumes them. Declares the topology.
// Thread: the consumer's.
#pragma once

#include <string>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/consumed_queues.h"
#include "plugin/rabbitmq/sink_adapter.h"
#include "src/core/clock.h"

namespace rung::rabbit {

class OwnQueues final : public ConsumedQueues {
 public:
  // REQUIRES: they outlive it.
  OwnQueues(const BrokerOptions& options, SinkAdapter& sink, const Clock& clock)
      : options_(options), sink_(sink), clock_(clock) {}

  Result<void> declare(const Calls& calls) override;
  void up(const Connection& connection) override {
    sink_.up(SinkAdapter::Side::intake, connection.address().shown);
  }
  void down(const Error&) override {}  // the connection loop reports it
  void begin_channel() override { cancelled_ = {}; }
  Result<void> consume(const Calls& calls) override;
  Result<void> cancel(const Calls& calls) override;
  void send_cancel(Connection& connection) override;
  bool must_change(bool consuming) const override { return cancelled_.due || (consuming && may_widen()); }
  void acked() override { may_be_wide_ = true; }
  Result<Changed> change(const Calls& calls, bool consuming) override;
  void cancelled(std::string_view consumer_tag) override;
  Origin origin(std::string_view consumer_tag) const override;

 private:
  // One message at a time until this process has acked one: if it ends before, again and again, a queue with
  // a delivery limit must not drop all that it had in hand. Not for longer than kNarrowMost: the first
  // message may be one that can be neither stored nor parked.
  static constexpr Ms kNarrowMost{10'000};
  bool one_at_a_time() const { return !may_be_wide_ && (quorum_ || !adopted_.empty()); }
  bool may_widen() const { return narrow_ && (may_be_wide_ || clock_.boot() - narrow_since_ >= kNarrowMost); }
  // `may_adopt`: use queues that exist with other arguments. REQUIRES then: nothing is consumed yet.
  Result<void> declare_all(const Calls& calls, bool may_adopt);
  Result<void> report_repaired(const Calls& calls);

  const BrokerOptions& options_;
  SinkAdapter& sink_;
  const Clock& clock_;
  // The broker has cancelled consumers, because their queues were deleted or a consumer timed out: declare
  // and consume again.
  struct Cancelled {
    bool due = false;
    std::vector<std::string> queues;  // for the report
  } cancelled_;
  const bool quorum_ = options_.rabbitmq.queue_type == "quorum";
  bool may_be_wide_ = false;  // since an ack, or kNarrowMost
  bool narrow_ = false;       // consuming one at a time
  BootMs narrow_since_{0};
  std::string adopted_;  // queues that exist with other arguments; "" = none
};

}  // namespace rung::rabbit
