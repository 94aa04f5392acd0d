// How to attach a queue, from its current arguments and policies; and the sidecar's look at which queues are
// attached.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/topology/attachment.h"
#include "plugin/rabbitmq/topology/probe.h"
#include "src/bridge/watch/attachments.h"
#include "src/io/uv_loop.h"

namespace rung::sidecar {

// Thread: pure functions.
struct AttachPlan {
  rabbit::AttachedAnswer answer;         // whether it is attached now
  std::optional<rabbit::Policy> policy;  // to be set; none: nothing is missing, or
  std::string refusal;                   // why a policy cannot attach it, and what can
  std::string command;                   // attaches it; "" = nothing does
  std::string overridden;                // the policy that it copies and overrides; "" = none
  std::string previous_exchange;         // where dead letters go now; "" = nowhere
  // It is attached by the policy that attach made, which no longer equals the one that it copies: `policy`
  // does. How they differ; "" = they do not.
  std::string drift;

  bool is_done() const { return !policy && refusal.empty(); }  // nothing is missing
};

AttachPlan plan_attach(const BrokerOptions& broker, const rabbit::QueueFacts& facts,
                       const rabbit::Vhost& vhost);

// "rung attach orders"
std::string attach_command(const std::string& queue);

// The policy that would apply to the queue without the one named `except`; nullptr: none. Of several with the
// same priority, RabbitMQ takes any: here the first by name.
const rabbit::Policy* policy_below(const rabbit::QueueFacts& facts,
                                   const std::vector<rabbit::Policy>& policies, std::string_view except);

// Polls the management API for which queues are attached, and the broker for how many messages are ready in
// those with deliveries. Passes the result to the bridge.
// Thread: the loop's; requests, which can be slow or hang, run on a thread of their own.
class AttachWatch {
 public:
  // Both are called on the loop. `queues` returns the queues to check.
  using Queues = std::function<bridge::WatchedQueues()>;
  using Found = std::function<void(const bridge::AttachmentLook&)>;
  AttachWatch(io::Loop& loop, BrokerOptions broker, Queues queues, Found found);
  // Interrupts a request in progress; connecting can block for up to kTimeout.
  ~AttachWatch();
  AttachWatch(const AttachWatch&) = delete;
  AttachWatch& operator=(const AttachWatch&) = delete;

  // Checks now, then every `every`.
  void start(Ms every);

  // Also checks now, after a check in progress. Checks take at most a tenth of the time: if they come faster,
  // they wait.
  void look_now() { ask(); }
  void look_within(Ms delay) { soon_.start(delay); }

  static constexpr Ms kTimeout{std::chrono::seconds{2}};  // for connecting, and for the response
  static constexpr std::size_t kMostOthers = 1000;        // queues that match a pattern of the config
  static constexpr Ms kKeep{std::chrono::seconds{5}};     // without a check, the connection to the broker

 private:
  void ask();
  void work();
  bridge::AttachmentLook look(const bridge::WatchedQueues& watched);
  bridge::QueueAttachment judge(const std::string& queue, const Result<rabbit::Vhost>& seen) const;
  void count(const bridge::WatchedQueues& watched, const rabbit::Vhost* seen, bridge::AttachmentLook& found);

  io::Loop& loop_;
  const BrokerOptions broker_;
  const std::string vhost_;
  const Queues queues_;
  const Found found_;
  io::Timer timer_, soon_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::optional<bridge::WatchedQueues> wanted_;  // guarded by mutex_; nullopt = no request pending
  std::unique_ptr<rabbit::QueueAdmin> admin_;    // guarded by mutex_, except calls by its own thread
  bool stopping_ = false;                        // guarded by mutex_
  std::unique_ptr<rabbit::Probe> probe_;         // its own thread's; nullptr: not connected
  std::thread thread_;
};

}  // namespace rung::sidecar
