// Checks the promises of docs/guarantees.md at each step and at the end of a simulation. A broken promise
// ends the simulation (World::broken). Thread: one.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/simulator/broker_server.h"
#include "tests/simulator/ledger.h"
#include "tests/simulator/watcher.h"
#include "tests/simulator/world.h"

namespace rung::sim {

class Judge final : public Watcher {
 public:
  explicit Judge(World& world);
  void set_server(const BrokerServer& server) { server_ = &server; }

  // --- what people and programs report
  Entry& entry(int message) { return entries_[message]; }
  void accepted(int message);
  // The database's clock in us, as a node may see it: until it has measured again, the clock from before a
  // step. Rounded to ms.
  std::int64_t reading() const;
  void read(const Message& delivery);  // by a consumer
  // A consumer's answer to a delivery, as the broker received it. `queue`: that it names; "" = its task's.
  // `delay`: the delay that it requested, else that of its ladder.
  void failed(const Message& delivery, const std::string& queue, std::optional<Ms> delay, bool never);
  // The broker has dropped a failure that was said: the queue was not attached.
  void dropped(const Message& delivery);
  void succeeded(const Message& delivery);
  // A person requests a change; it may take effect from now on.
  void asked(TaskId id, const Happening& what);
  void answered(TaskId id, const Happening& what, const Decision& decision);
  void stepped(Us by);  // the database's clock has stepped
  void paused(const std::string& queue);
  void redrives(std::int64_t bulk, const Care& care);  // a person has asked for it
  std::vector<TaskId> canary_of(std::int64_t bulk) const;

  // --- Watcher
  void inserted(std::span<const NewTask> tasks, const std::vector<Inserted>& answers,
                const Fence& fence) override;
  void applied(std::span<const Event> events, const std::vector<Decision>& decisions,
               const Fence& fence) override;
  void written(const std::string& node, std::uint64_t connection, const Outgoing& outgoing) override;
  void arrived(const std::string& queue, const Message& message, std::uint64_t by) override;
  void returned(const Message& message) override;
  void nacked(const Message& message, std::uint64_t by) override;
  void acked(const std::string& inlet, const Message& message) override;

  // Call at the end, when everything had time to finish after the last fault. `dead_queue`: a queue that
  // never answers again.
  void final_look(const std::string& dead_queue);
  // Judges the tasks that ended before then, and forgets them. Returns the parked ones, which are kept: they
  // wait for a person.
  std::vector<TaskId> judge_ended(EpochMs before);
  const std::map<TaskId, Facts>& facts() const { return facts_; }
  std::vector<TaskId> tasks_of(int message) const;
  bool is_for(int message, const std::string& queue) const;
  // The rows and the history of a message, for its story.
  std::vector<std::string> rows_of(int message);

 private:
  // After a step of the database's clock: until all have measured it again.
  static constexpr Us kUntilMeasured = kMinute;
  // Without a fault for so long, nothing of one is on its way.
  static constexpr Us kCalm = 30 * kSecond;
  static constexpr Us kAhead = 250 * kMs;  // what the claim allows (Dispatch::kAhead)

  void broken(const std::string& promise, int message);
  bool is_parked_copy(const Message& delivery) const;
  // When a task may come again since one of its copies failed; none: none has.
  static std::optional<std::int64_t> due_by_copies(const Facts& facts);
  void judge_reopened(Facts& facts, const Task& task);
  void judge_step(CarefulRedrive& redrive, const std::vector<Decision>& decisions);
  void judge_canary(const CarefulRedrive& redrive);
  bool holds_lease(int node, std::optional<int> shard);
  Us tolerance(Us claimed_at) const;
  void judge_arrival(TaskId id, Facts& facts, const Message& message, std::uint64_t by);
  bool by_former_life(const Facts& facts, int attempt, std::uint64_t by) const;
  static bool ended_by_hand(const Facts& facts, int attempt, std::uint64_t by);
  bool is_paused(const std::string& queue) const;
  void judge_silence(const Facts& facts, const Task& task);
  void judge_confirm(const Facts& facts, const Task& task, int node);
  void judge_takeover(const Facts& facts, int attempt, const std::string& node);
  void judge_message(int number, const Entry& entry, const std::string& dead_queue);
  void judge_row(const TaskRow& row, const Facts& facts, const std::string& dead_queue);
  void judge_history(const TaskRow& row, const Facts& facts);
  // `probe`: it was a breaker's probe, whose failure leaves it on its level.
  std::int64_t next_due(const Facts::Arrival& arrival, std::int64_t from_us, bool probe) const;
  bool is_probe(TaskId id, int attempt) const;
  void judge_gates(const Facts& facts, const Task& task);
  void judge_holds(const Facts& facts);

  World& world_;
  const std::unique_ptr<MemoryStore> store_;
  const BrokerServer* server_ = nullptr;
  std::map<int, Entry> entries_;
  std::map<TaskId, Facts> facts_;
  std::vector<std::pair<Us, Us>> steps_;             // when, by how much
  std::map<std::string, Us> first_tasks_;            // when the first task of each queue was taken in
  std::map<std::string, Us> paused_;                 // when each queue was paused, or its pause changed, last
  std::map<std::string, std::vector<Us>> claims_;    // of new attempts, by queue
  std::set<std::pair<TaskId, int>> read_;            // attempts that a consumer took
  std::map<std::int64_t, CarefulRedrive> redrives_;  // by bulk
  std::map<TaskId, std::string> edits_;              // the bodies that people gave, by new task
};

}  // namespace rung::sim
