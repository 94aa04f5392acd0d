// Tasks that are due, of queues with a rate, or a rate for each value of a header. They wait here for a token
// of their queue and of their value (src/core/gates/gates.h), and are claimed as any other then. Each
// instance has its share of each rate, by the shards that it holds. Within a value the oldest goes first;
// values take turns. A token whose task is not sent goes to the next one.
//
// Queue::wakes says when a queue has something to do, Queue::line when each of its values may send. Thread:
// the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/bridge/base/sidecar.h"
#include "src/bridge/flight/targets.h"
#include "src/core/gates/gates.h"
#include "src/core/rules/policy.h"
#include "src/io/loop.h"

namespace rung::bridge {

class Throttle {
 public:
  // Tasks that are kept in memory, of one queue and of all, and values of one queue. The sweep finds the
  // others when there is room.
  static constexpr std::size_t kMostKept = 200'000, kMostInAll = 250'000, kMostValues = 50'000;

  Throttle(const Sidecar& sidecar, Flights& flights, std::size_t most_in_all);

  // Whether tasks of this queue need tokens.
  bool holds(std::uint32_t queue) const;
  // Of each queue, whatever the others keep: their backlog must not stop it.
  static constexpr std::size_t kFewKept = 100;
  // Whether no more of its tasks are kept.
  bool full(std::uint32_t queue) const;
  // REQUIRES: it is at Stage::throttled.
  void add(const io::DueItem& item);
  // A released task of this value is not to be sent: its token is free.
  void not_sent(std::uint32_t queue, const std::string& value);
  // Gates or rules may have changed.
  void changed();
  // Call each second.
  void tick();
  std::optional<io::DueItem> take_oldest(std::uint32_t queue);
  void clear();

  void each_queue(const std::function<void(std::uint32_t)>& tell) const;  // with tasks here
  std::size_t waiting() const { return waiting_; }
  std::size_t waiting(std::uint32_t queue) const;
  // Queues with tasks that have been waiting for tokens for a second or longer.
  std::vector<std::string> limited() const;

 private:
  struct Value {
    TokenBucket bucket;
    Oldest waiting{};
    bool listed = false;  // in Queue::line
  };
  using Values = std::map<std::string, Value, std::less<>>;
  struct Queue {
    std::string name;
    TokenBucket bucket;                              // of the queue's own rate
    Values values{};                                 // by indexed_value(); "" if it has no rate_by
    std::multimap<BootMs, Values::iterator> line{};  // those with tasks, by when they may send
    double per_value = 0;                            // our share of rate_by, by which `line` is
    std::string header{};                            // the one whose values these are
    std::vector<io::DueItem> unknown{};              // their values have not been read yet
    std::vector<io::DueItem> looked_up{};            // they are being read
    std::size_t waiting = 0;                         // all of its tasks here
    std::optional<BootMs> wakes{};                   // when it is to be looked at
  };

  const GateRules& rules(std::uint32_t queue) const;
  double share(double per_second) const;
  double rate(std::uint32_t queue) const;
  double rate_by(std::uint32_t queue) const;
  BootMs empty_since(double per_second) const;
  void wake(Queue& queue, BootMs at);
  void work();
  void follow_rate(std::uint32_t number, Queue& queue, BootMs now);
  std::optional<BootMs> send(std::uint32_t number, Queue& queue, BootMs now, std::vector<io::DueItem>& out);
  bool release(Queue& queue, Values::value_type& value, BootMs now, std::vector<io::DueItem>& out);
  bool is_gone(const io::DueItem& item);
  void put(std::uint32_t number, Queue& queue, const std::string& value, const io::DueItem& item);
  static void list(Queue& queue, Values::iterator value, BootMs now);
  void look_up(std::uint32_t number, Queue& queue);
  void found(std::uint32_t number, Queue& queue, const io::DueItem& item, const std::string& value);
  static void forget_values(Queue& queue);
  static void forget_unused(Queue& queue, bool all, BootMs now);
  void release_all(Queue& queue);

  const Sidecar& sidecar_;
  Flights& flights_;
  const std::size_t most_in_all_;
  const BootMs began_;
  std::map<std::uint32_t, Queue> queues_;  // those that had tasks lately
  std::size_t waiting_ = 0;
  std::set<std::uint32_t> told_;  // queues of which a header without a value was logged
  io::Timer again_;               // the first queue wakes, ...
  BootMs again_at_{0};            // ... then
};

}  // namespace rung::bridge
