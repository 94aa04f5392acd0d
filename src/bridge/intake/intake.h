// Takes in what the broker delivers. A failed or delayed message -> row committed -> acked, always in this
// order: a message that is not yet in the database is still in the broker, unacked, bounded by the prefetch.
// A consumer's result of a retry goes to the row, and is acked then. Deliveries wait here until they can be
// decided: delays need the database's clock, results the key of the delivery tokens; if broker.targets has a
// list, dead letters need a check of the attached queues. Thread: the loop's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/broker.h"
#include "src/bridge/base/sidecar.h"
#include "src/bridge/changes/inserts.h"
#include "src/bridge/flight/transitions.h"
#include "src/core/base/ids.h"
#include "src/core/machine/headers.h"
#include "src/core/machine/machine.h"
#include "src/core/task/task.h"

namespace rung::bridge {

// --- the task that an incoming message becomes: a failure starts at the ladder's first level, a delay waits
// for its time (newcomer.cc). Thread: pure functions.

inline constexpr std::size_t kShortString = 255;  // bytes, of name columns

// A message that carries the headers of one of our deliveries, and is not the message in that task's row, or
// the row is gone: a task of its own, which goes on where the other one stands.
struct Continuation {
  TaskId parent;
  int level = 1;  // that it waits for first
  std::optional<EpochMs> first_failed_at = {};
  std::string ladder = {};  // pinned; "" = its queue's
  int max_attempts = 0;     // that are left; 0 = no such limit
  std::string remark = {};  // to its error
};
// `failed`: the attempt whose headers it carries.
Continuation continue_after(const Task& parent, const Failure& failed);
Continuation continue_lost_row(const Failure& failed);

// When it arrived, and by which rules it is decided.
struct Arrival {
  const RuleBook& rules;
  EpochMs now;          // by DbClock::latest(): a lag of our clock reading never cuts a delay short
  double random = 0.0;  // [0, 1), for jitter
};

// Inserts sets id, shard and node. Parked at once if a header names a target that the rules don't allow, or
// if `park_reason` is not empty.
NewTask failed_task(const Delivery& delivery, const Failure& failure, const Arrival& arrival,
                    std::string park_reason = {}, const Continuation& continues = {});
NewTask delayed_task(const Delivery& delivery, const DelayRoutes& routes, const Arrival& arrival);

// Makes it the row of a message that the database cannot store: parked, without its body, which is in
// <prefix>.parked.
void leave_body_out(NewTask& fresh, const std::string& reason, const RuleBook& rules, EpochMs now);

// --- the intake

// Messages at the intake that Rung recognizes: repeats of what it has, messages that carry the headers of one
// of its deliveries, and dead letters of publishes that a full queue refused; and failures without an origin.
// Each is counted; the first of a queue leaves an event (retry_events).
class Recognized {
 public:
  enum class As : std::uint8_t {
    // Acked without a new row: the digest proves that the row has this very message.
    duplicate,  // taken in before
    repeat,     // the failure of an attempt that has ended
    // Taken in, or recorded.
    changed,    // a retry that came back with other headers or properties: its task has them now
    child,      // another message with the headers of a retry: a task of its own, on the same level
    elsewhere,  // the same in another queue: a task of its own, from the first level
  };
  static std::string_view to_word(As as);

  struct Item {
    As as = As::duplicate;
    TaskId task;  // that it was recognized by
    std::string queue, message_id;
    std::string reason;
  };

  explicit Recognized(const Sidecar& sidecar)
      : sidecar_(sidecar), failed_(sidecar.settings.prefix + ".failed") {}

  void add(const Item& item);
  // The broker answered that publish with a nack, and its attempt was taken back; a queue with x-overflow
  // reject-publish-dlx dead-letters the message all the same. No consumer has seen it, and its task is
  // published again, so it is acked without a change.
  void refused_publish(TaskId id, int attempt, const std::string& queue);
  // A new row. A failure that a consumer published to <prefix>.failed without saying by which exchange and
  // routing key the message came: its retries get the queue's name as routing key, and nothing knows the
  // original one any more.
  void inserted(const Task& task);

 private:
  const Sidecar& sidecar_;
  const std::string failed_;                           // the exchange
  OncePerName acked_, taken_in_, refusing_, without_;  // queues
};

class Intake {
 public:
  explicit Intake(const Sidecar& sidecar);

  // REQUIRES: all are of one session.
  void arrived(std::vector<Delivery> batch);
  // Tries the waiting deliveries again: what they wait for may have arrived.
  void go_on();
  // Drops all deliveries in hand: the broker redelivers them.
  void drop_all();
  // Starts nothing new: what is unacked goes to another instance, or to us after a restart.
  void drain() { draining_ = true; }
  bool idle() const { return diverting_ == 0; }

  Recognized& recognized() { return recognized_; }

 private:
  bool can_judge() const;
  void drop_before(const IntakeSession& session);
  void take(std::vector<Delivery> batch);
  void failed(Delivery delivery);
  void result(const Delivery& delivery);
  Arrival arrival();
  void insert(const Delivery& delivery, NewTask fresh);
  // A failed message that names a task of ours.
  struct Known {
    Delivery delivery;
    Failure failure;
  };
  void known(Known item);
  void decided(const Known& item, const Result<Decision>& decision);
  void refused(const Known& item, const Decision& decision);
  void take_in(const Known& item, const Continuation& continues, std::string park_reason = {});
  void note(Recognized::As as, const Known& item, TaskId task, std::string reason);
  void inserted(Inserts::Item& item, const Result<std::vector<Inserted>>& answers);
  void divert(Inserts::Item item, const std::string& reason);
  void try_later(Inserts::Item item, const std::string& reason);

  const Sidecar& sidecar_;
  const std::string parked_;  // the exchange
  const DelayRoutes routes_;
  std::vector<IntakeSession> sessions_;  // of the last delivery of each intake
  std::vector<Delivery> unchecked_;
  Recognized recognized_;
  OncePerName expired_told_;  // queues
  std::mt19937_64 dice_;
  bool draining_ = false;
  int diverting_ = 0;
};

}  // namespace rung::bridge
