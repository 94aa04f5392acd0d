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
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "plugin/broker.h"
#include "src/bridge/base/sidecar.h"
#include "src/core/machine/machine.h"
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
  void each_queue(const std::function<void(std::uint32_t)>& tell) const;

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

}  // namespace rung::bridge
