// The tasks that this instance works on: one record for each, which says at which stage it is. The functions
// below are the transitions. move() alone changes a stage, and with it all that is counted by stage, queue
// and shard; it requires that the stage may follow the one before. Thread: the loop's.
//
//   waiting -> claiming -> unread -> reading -> held -> sent -> recording -> gone
//
// unread is left out if there is room at once, held if the task is due. Before it is sent a task may leave.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/bridge/base/sidecar.h"
#include "src/io/due_heap.h"

namespace rung::bridge {

class Targets;

// What is known of a claimed task.
struct Claim {
  std::shared_ptr<const Task> task;  // as the claim left it
  std::size_t bytes = 0;             // its body plus approximate message overhead
  bool copy_may_be_out = false;      // an earlier publish of the attempt got no answer
  MessagePtr message;                // while it is held
  Ms behind_gates{0};                // waited there since it was due
};

struct Flight {
  enum class Stage : std::uint8_t {
    gone,       // it has no record
    waiting,    // due: in Targets, to be claimed
    claiming,   // the claim is on its way to the database
    unread,     // claimed; its message is still in the database, for want of room
    reading,    // its message is on its way from there
    held,       // its message is here, and not due yet
    sent,       // to the broker, which has not answered
    recording,  // there is a result, which the row does not have yet
  };
  static constexpr std::size_t kStages = 8;

  std::uint32_t queue = 0;  // the target's number in QueueNames
  std::int16_t shard = 0;
  Stage stage = Stage::gone;
  PublishLane lane = PublishLane::main;
  bool again = false;            // who claimed it before cannot publish it any more
  std::unique_ptr<Claim> claim;  // once the database has it
};
static_assert(sizeof(Flight) <= 24, "a million of them may wait");

class Flights {
 public:
  using Stage = Flight::Stage;

  // `targets` counts tasks under way per queue. A shard is in use while a task of it is claimed.
  Flights(const Sidecar& sidecar, Targets& targets) : sidecar_(sidecar), targets_(targets) {}

  // nullptr: there is none.
  const Flight* find(TaskId id) const {
    const auto it = flights_.find(id);
    return it == flights_.end() ? nullptr : &it->second;
  }
  bool contains(TaskId id) const { return find(id) != nullptr; }
  // The same, and for that queue: a waiting task may have been moved to another queue since.
  bool contains(const io::DueItem& item) const {
    const Flight* flight = find(item.id);
    return flight != nullptr && (flight->stage >= Stage::claiming || flight->queue == item.queue);
  }
  bool waits(const io::DueItem& item) const {
    const Flight* flight = find(item.id);
    return flight != nullptr && waits(*flight, item);
  }
  // Claimed, or about to be, and the row does not record the result of the publish yet.
  bool publishing(TaskId id) const {
    const Flight* flight = find(id);
    return flight != nullptr && flight->stage >= Stage::claiming;
  }
  void each_queue(const std::function<void(std::uint32_t)>& tell) const {
    for (const auto& [id, flight] : flights_) tell(flight.queue);
  }

  std::size_t count(Stage stage) const { return stages_[static_cast<std::size_t>(stage)]; }
  std::size_t under_way() const { return under_way_; }  // from claiming to sent
  std::size_t bytes() const { return bytes_; }          // of the messages that are here: held, or sent

  // The task is due. If it waits already, for another queue, this one replaces it.
  void add(const io::DueItem& item, bool again = false);
  // False if the task does not wait any more, waits for another queue, or is not ours.
  bool begin_claim(const io::DueItem& item);
  // The claim applied. `reads`: its message has come with the answer.
  Flight& claimed(TaskId id, Decision&& decision, std::size_t bytes, bool reads);
  // The claim did not apply, or failed.
  void not_claimed(TaskId id) { remove(at(id, Stage::claiming)); }
  void read(Flight& flight) { move(flight, Stage::reading); }
  void hold(Flight& flight, MessagePtr message);
  void send(Flight& flight, BootMs now);
  void answered(Flight& flight, PublishResult::How how, BootMs now);
  // It cannot be sent.
  void unsendable(Flight& flight);
  // A claimed task that we do not send: its row stays as it is, and the janitor of its shard's owner finds
  // it.
  void release(const Flight& flight);
  // The row records the result, or the publish has none.
  void end(TaskId id);
  // Drops the task unless it is claimed, or about to be.
  void drop(TaskId id);
  void drop_unclaimed();  // all of them

 private:
  using Table = std::unordered_map<TaskId, Flight>;

  static bool waits(const Flight& flight, const io::DueItem& item) {
    return flight.stage == Stage::waiting && flight.queue == item.queue;
  }
  Table::iterator at(TaskId id, Stage stage);
  void move(Flight& flight, Stage to);
  void remove(Table::iterator it);

  const Sidecar& sidecar_;
  Targets& targets_;
  Table flights_;
  std::array<std::size_t, Flight::kStages> stages_{};
  std::size_t under_way_ = 0;
  std::size_t bytes_ = 0;
};

// Tasks that wait, the oldest first.
struct LaterDue {
  bool operator()(const io::DueItem& a, const io::DueItem& b) const { return a.at > b.at; }
};
using Oldest = std::priority_queue<io::DueItem, std::vector<io::DueItem>, LaterDue>;

// A task that may be claimed.
struct Taken {
  io::DueItem item;
  std::optional<std::string> value = {};  // its header's, if it has a token; "" without rate_by
  int probe = 0;                          // the number of the breaker's probe that it is; 0 = none
  Ms behind_gates{0};                     // waited there since it was due
};

// The tasks that wait to be claimed, separately for each target queue, so that none delays another. Each
// target has a window of claims and publishes under way (grows with each answer, reset after a loss), a pause
// after the broker refused a publish to it, and a rate for overdue tasks. Within a queue the oldest goes
// first, but tasks due now do not wait behind overdue ones. A target that does not answer while others do,
// and the targets of a connection that stalls, go into quarantine: one at a time is probed with a single
// message on a separate connection, unless it has publishes under way. It returns to normal once it answers.
// A target behind a closed gate (src/bridge/flight/gates.h) keeps its tasks until the gate opens.
//
// A queue with a rate, or a rate for each value of a header: its tasks wait for a token of the queue and of
// their value (src/core/gates/gates.h; rates.cc). Each instance has its share of each rate, by the shards
// that it holds. Within a value the oldest goes first; values take turns. A token whose task is not sent goes
// to the next one. Thread: the loop's.
class Targets {
 public:
  // A target that has not answered for this long gets nothing more until it does.
  static constexpr Ms kSilent{2000};
  // How long to wait before trying a queue again that refused (it is full).
  static constexpr Ms kRefusedPause{5000};

  // `most`: the limit under way for one target. `first_window`: from BrokerLimits. What is taken from here
  // begins its claim in `flights`, if it still waits there.
  Targets(const Sidecar& sidecar, Flights& flights, std::size_t most, std::size_t first_window);

  // Whether no more of its tasks are kept in memory: a gate holds them back, and the sweep finds the others
  // when it opens.
  bool is_full(std::uint32_t queue) const;
  // One of them was left in the database.
  void leave(std::uint32_t queue);
  // `overdue`: it goes out at the catch-up rate.
  void add(const io::DueItem& item, bool overdue);
  // Whether tasks of this queue need tokens.
  bool is_limited(std::uint32_t queue) const;
  // Waits for a token.
  void add_limited(const io::DueItem& item);
  // A task of this value was not sent: its token is free.
  void not_sent(std::uint32_t queue, const std::string& value);
  // Reads the values of headers that are needed. Returns when a task may have its token; none: no task waits
  // for one. take() gives what has come by then.
  std::optional<BootMs> next_token(BootMs now);
  // Rates may have changed: the rules, our shards, or what follows a breaker.
  void rates_changed();
  // Queues with tasks that have been waiting for tokens for a second or longer.
  std::vector<std::string> limited(BootMs now) const;
  // Call after a time without publishing: tasks overdue by now go out at the catch-up rate.
  void sort_out(EpochMs now);
  // The target's gate may have closed or opened. Behind a closed one the oldest few thousand are kept. What
  // is overdue behind a gate that opens goes out at the catch-up rate; after a breaker all that waits.
  // Returns whether it has opened and tasks were left in the database.
  bool gate_changed(std::uint32_t queue, EpochMs now);
  bool is_closed(std::uint32_t queue) const;
  // Below 1 if a breaker of the queue has just closed: it lets more and more through.
  double ramp(std::uint32_t queue) const;
  // Calls `tell` for each target that has something under way, or is not to be forgotten for another reason.
  void each_in_use(BootMs now, const std::function<void(std::uint32_t)>& tell) const;
  // REQUIRES: it is not in use.
  void forget(std::uint32_t queue);
  // Takes the oldest task of a target whose gate is closed, as a breaker's probe. In quarantine it is the
  // target's probe as well. None while the target answers nothing.
  std::optional<Taken> take_gate_probe(std::uint32_t queue, BootMs now);
  // Whether there may be one: tasks of the target wait here, and it answers.
  bool has_gate_probe(std::uint32_t queue, BootMs now) const;
  // Takes up to `most` tasks that may go now, round-robin by queue.
  std::vector<Taken> take(std::size_t most, BootMs now);
  // The oldest task of the next target in quarantine; none while another is being probed.
  std::optional<Taken> take_probe(BootMs now);
  // Call each second. `publishing`: the broker accepts publishes. Detects publishes that are not answered:
  //   - A queue does not answer while others do: it goes into quarantine. Its unanswered publishes stay on
  //     their connection, because the queue has them and answers once it works again.
  //   - A connection answers nothing while publishes to several queues are under way: one silent queue may
  //     block the whole connection in the broker. The connection is dropped and its targets go into
  //     quarantine; probes find out which target is silent.
  //   - The only queue with publishes under way does not answer: it is only reported. It delays no other.
  // Reports the queues: a log line when the silence of one begins and ends, and the problem "silent_queues".
  void check(bool publishing);
  // Quarantines the targets that have had publishes under way without an answer for longer than `most`.
  void quarantine(BootMs now, Ms most);
  // Silence counts from now: no answers were possible until now.
  void begin_silence(BootMs now);

  // For Flights alone. A task is under way, to be claimed and published on this lane.
  PublishLane begin(std::uint32_t queue);
  // It has been published: silence counts from the first one without an answer.
  void sent(std::uint32_t queue, BootMs now);
  // The broker's answer to it: adjusts the window and the pause.
  void answered(std::uint32_t queue, PublishResult::How how, BootMs now);
  // It is no longer under way, published or not.
  void end(std::uint32_t queue);

  std::size_t waiting() const { return waiting_; }       // without those behind a gate
  std::size_t held() const { return held_ + limited_; }  // those
  // For metrics: the queues with recent publishes.
  struct Summary {
    std::size_t window = 0;       // the sum of their windows
    std::size_t quarantined = 0;  // how many are in quarantine
  };
  Summary summary() const;
  bool empty() const { return waiting_ == 0; }
  // Drops all waiting tasks.
  void clear();

  // Call now and then: forgets targets that have been idle for a while.
  void tidy(BootMs now);

 private:
  struct Value {
    TokenBucket bucket;
    Oldest waiting = {};
    bool listed = false;  // in Limit::line
  };
  using Values = std::map<std::string, Value, std::less<>>;
  using HeaderValues = std::map<TaskId, std::string>;
  // What a queue with a rate has besides.
  struct Limit {
    static constexpr std::size_t kMostValues = 50'000;

    TokenBucket bucket;                                 // of the queue's own rate
    Values values = {};                                 // by indexed_value(); "" if it has no rate_by
    std::multimap<BootMs, Values::iterator> line = {};  // those with tasks, by when they may send
    double per_value = 0;                               // our share of rate_by, by which `line` is
    std::string header = {};                            // the one whose values these are
    std::vector<io::DueItem> unknown = {};              // their values have not been read yet
    std::vector<io::DueItem> looked_up = {};            // they are being read
    std::size_t waiting = 0;                            // all of its tasks here
    BootMs next{0};                                     // nothing is to be done before

    bool has_token(BootMs now) const { return bucket.has() && !line.empty() && line.begin()->first <= now; }
  };
  struct Target {
    Oldest fresh, overdue;
    std::unique_ptr<Limit> limit = {};
    std::size_t under_way = 0;
    std::size_t window = 0;  // at() begins with the first window
    BootMs closed_until{0};
    std::size_t unanswered = 0;  // of those under way: sent to the broker
    BootMs heard_at{0};          // its last answer, or when the first of those under way was sent
    TokenBucket catching_up;     // for overdue tasks
    std::size_t may_go = 0;      // within one take()
    bool closed = false;         // its gate
    bool left = false;           // some of its tasks in the database meanwhile
    bool quarantined = false;
    std::optional<BootMs> reported;  // since when it does not answer
    BootMs probe_at{0};              // not before
    Ms probe_pause{0};               // before the probe after that

    // Without those that need tokens:
    bool waits() const { return !fresh.empty() || !overdue.empty(); }
    std::size_t waiting() const { return fresh.size() + overdue.size(); }

    std::size_t limited() const { return limit == nullptr ? 0 : limit->waiting; }
  };

  Target& at(std::uint32_t queue);
  bool is_shut(std::uint32_t queue) const;
  double catch_up(std::uint32_t queue) const;
  static bool is_silent(const Target& target, BootMs now, Ms most) {
    return target.unanswered > 0 && now - target.heard_at > most;
  }
  std::size_t& counter_of(const Target& target) { return target.closed ? held_ : waiting_; }
  std::size_t room(const Target& target, BootMs now) const;
  static void sort_out(Target& target, EpochMs now);
  void keep_oldest(Target& target, std::size_t most);
  io::DueItem pop(Target& target, Oldest& from);
  std::optional<Taken> take_oldest(Target& target);
  void begin_probe(std::uint32_t queue, BootMs now);
  std::size_t take_from(Target& target, std::size_t most, BootMs now, std::vector<Taken>& out);
  void drop_stalled_connection(BootMs now);
  void report(BootMs now);

  const GateRules& gate_rules(std::uint32_t queue) const;
  double share(double per_second) const;
  double rate(std::uint32_t queue) const;
  BootMs empty_since(double per_second) const;
  void follow_rules(std::uint32_t queue, Target& target, BootMs now);
  std::optional<Taken> take_limited(Limit& limit, BootMs now);
  std::optional<io::DueItem> take_oldest(Limit& limit, Value& value);
  void put(Limit& limit, const std::string& value, const io::DueItem& item, BootMs now);
  static void list(Limit& limit, Values::iterator value, BootMs now);
  static void forget_values(Limit& limit);
  static void forget_unused(Limit& limit, bool all, BootMs now);
  bool remembers_tokens(std::uint32_t queue, const Target& target, BootMs now) const;
  void look_up(std::uint32_t queue, Limit& limit, BootMs now);
  void found(std::uint32_t queue, Limit& limit, const std::string& header, const HeaderValues& values);

  const Sidecar& sidecar_;
  Flights& flights_;
  const std::size_t most_;
  const std::size_t first_window_;
  const std::size_t most_held_;  // kept in memory behind closed gates, of all queues together
  const BootMs began_;
  std::map<std::uint32_t, Target> targets_;
  std::optional<std::uint32_t> probing_;
  BootMs probing_since_{0};
  std::uint32_t turn_ = 0;                            // the queue that goes first next time
  std::size_t waiting_ = 0, held_ = 0, limited_ = 0;  // held: behind a closed gate; limited: need a token
  std::set<std::uint32_t> told_;                      // queues of which a header without a value was logged
  Ms stall_timeout_;  // doubled after each stall, until a publish is confirmed
};

}  // namespace rung::bridge
