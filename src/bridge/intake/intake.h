// Takes in what the broker delivers. A failed or delayed message -> row committed -> acked, always in this
// order: a message that is not yet in the database is still in the broker, unacked, bounded by the prefetch.
// A consumer's result of a retry goes to the row, and is acked then. Deliveries wait here until they can be
// decided: delays need the database's clock, results the key of the delivery tokens; if broker.targets has a
// list, dead letters need a check of the attached queues. Thread: the loop's.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "src/bridge/base/sidecar.h"
#include "src/bridge/changes/inserts.h"
#include "src/bridge/flight/transitions.h"
#include "src/bridge/watch/attachments.h"

namespace rung::bridge {

// --- the task that an incoming message becomes: a failure starts at the ladder's first level, a delay waits
// for its time (newcomer.cc). Thread: pure functions.

inline constexpr std::size_t kShortString = 255;  // bytes, of name columns

// When it arrived, and by which rules it is decided.
struct Arrival {
  const RuleBook& rules;
  EpochMs now;          // by DbClock::latest(): a lag of our clock reading never cuts a delay short
  double random = 0.0;  // [0, 1), for jitter
};

// Inserts sets id, shard and node. Parked at once if a header names a target that the rules don't allow, or
// if `park_reason` is not empty. `parent`: the message carries the headers of one of this task's deliveries,
// and is not the message in its row, or the row is gone (then it has what the delivery says). With a
// `remark`, which goes to its error, it goes on where that task stands, otherwise it starts on the first
// level.
NewTask failed_task(const Delivery& delivery, const Failure& failure, const Arrival& arrival,
                    std::string park_reason = {}, const Task* parent = nullptr,
                    const std::string& remark = {});
NewTask delayed_task(const Delivery& delivery, const DelayRoutes& routes, const Arrival& arrival);

// Makes it the row of a message that the database cannot store: parked, without its body, which is in
// <prefix>.parked.
void leave_body_out(NewTask& fresh, const std::string& reason, const RuleBook& rules, EpochMs now);

// --- the intake

// What a message at the intake is recognized as. Each is counted; the first of a queue leaves an event
// (retry_events).
enum class Recognized : std::uint8_t {
  // Acked without a new row: the digest proves that the row has this very message.
  duplicate,  // taken in before
  repeat,     // the failure of an attempt that has ended
  // Taken in, or recorded.
  changed,    // a retry that came back with other headers or properties: its task has them now
  child,      // another message with the headers of a retry: a task of its own, on the same level
  elsewhere,  // the same in another queue: a task of its own, from the first level
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

  // `task`: by which it was recognized.
  void note(Recognized as, TaskId task, const std::string& queue, const std::string& message_id,
            const std::string& reason);

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
  void take_in(const Known& item, std::string park_reason, const Task* parent = nullptr,
               const std::string& remark = {});
  void note(Recognized as, const Known& item, TaskId task, const std::string& reason);
  // The broker answered that publish with a nack, and its attempt was taken back; a queue with x-overflow
  // reject-publish-dlx dead-letters the message all the same. No consumer has seen it, and its task is
  // published again, so it is acked without a change.
  void note_refused_publish(TaskId id, int attempt, const std::string& queue);
  // A failure that a consumer published to <prefix>.failed without saying by which exchange and routing key
  // the message came: its retries get the queue's name as routing key, and nothing knows the original one any
  // more.
  void note_origin(const Task& task);
  void inserted(const Inserts::Item& item, const Result<std::vector<Inserted>>& answers);
  void divert(Inserts::Item item, const std::string& reason);
  void try_later(Inserts::Item item, const std::string& reason);

  const Sidecar& sidecar_;
  const std::string parked_, failed_;  // exchanges
  const DelayRoutes routes_;
  std::vector<IntakeSession> sessions_;  // of the last delivery of each intake
  std::vector<Delivery> unchecked_;
  // Queues of which it was told.
  OncePerName acked_, taken_in_, refusing_, without_origin_, expired_;
  std::mt19937_64 dice_;
  bool draining_ = false;
  int diverting_ = 0;
};

// --- when nothing is taken in, and why

// Whether the intake stands still: as long as anybody holds it. Thread: the loop's.
class IntakeHolds {
 public:
  enum class Why { database_away, place, crash_loop };

  explicit IntakeHolds(Broker& broker) : broker_(broker) {}

  // With each hold, also a second one, the broker takes back what is unacked.
  void hold(Why why) {
    holds_.insert(why);
    broker_.pause_intake(true);
  }
  bool held() const { return !holds_.empty(); }
  void release(Why why) {
    if (holds_.erase(why) > 0 && holds_.empty()) broker_.pause_intake(false);
  }

 private:
  Broker& broker_;
  std::set<Why> holds_;
};

// Without its database an instance can store nothing: its unacked messages wait in vain, while another
// instance could take them. When the database has not answered for a lease, we stop consuming the inlets and
// return unacked messages to the broker; when it answers, we consume again. Without the database we cannot
// know whether another instance exists. If we are alone, the messages wait in the queue just as well as here,
// and none goes back and forth, since nothing is consumed.
//
// A database that refuses (a missing right or table) counts as answering, for it refuses the others too; but
// a pause only ends once it serves us. Thread: the loop's.
class IntakePause {
 public:
  IntakePause(const Sidecar& sidecar, IntakeHolds& holds);

  // Consumes nothing until the database has answered for the first time: a process that ends before would
  // only use up deliveries, which a delivery limit counts.
  void start();
  // The database may have answered: looks now instead of at the next turn.
  void answered() {
    if (paused_) look();
  }
  // Whether any job waits for the database.
  void database_away(bool yes);
  void drain();

 private:
  void look();
  void pause(BootMs now);
  void resume(BootMs now);

  const Sidecar& sidecar_;
  IntakeHolds& holds_;
  io::Timer timer_;
  bool away_ = false;
  bool paused_ = false;
  bool begun_ = true;  // false: paused since the start
  bool draining_ = false;
  BootMs paused_at_{0}, resumed_at_{0};  // 0 = never
  // The minimum length of a pause: longer each time if the database comes and goes, so that the same messages
  // are not taken and returned over and over.
  Ms least_{0};
};

// Keeps a crash loop from using up a delivery limit. A process that ends before its acks arrive costs each
// message in its hands one delivery, and a limit, by whomever it was set, drops a message after a few. So
// each start is counted in the database before the first message is consumed (the count is this node's), and
// counts no more after kStable of intake, or after a drain. With unfinished starts before this one, the
// intake waits for the first look at the queues, kLookTakes at most; from the third on it pauses, a second
// longer each time. If one of our queues has a limit, and half as many starts were not finished, nothing is
// consumed until the limit is gone or high enough. Thread: the loop's.
class CrashLoop {
 public:
  static constexpr Ms kStable{60'000};
  static constexpr Ms kLookTakes{5'000};
  static constexpr Ms kLongestPause{30'000};

  CrashLoop(const Sidecar& sidecar, IntakeHolds& holds);

  // Holds the intake, and asks the database.
  void start();
  // If the management API did not tell, what it told last applies.
  void looked(const AttachmentLook& look);
  void drain();

 private:
  enum class Stage : std::uint8_t { counting, waiting, stopped, consuming, over };

  void counted(std::int64_t unfinished);
  void judge();
  void stop();
  void tick();
  void consume();
  void write(std::int64_t count);

  const Sidecar& sidecar_;
  IntakeHolds& holds_;
  const std::string name_;  // of the setting
  io::Timer timer_;
  Stage stage_ = Stage::over;
  std::int64_t unfinished_ = 0;  // starts before this one
  bool looked_ = false;
  DeliveryLimit limit_;
};

}  // namespace rung::bridge
