// failed or delayed message -> row committed -> acked. Always in this order: a message that is not yet in the
// database is still in the broker, unacked, bounded by the prefetch. Thread: the loop's.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "src/bridge/base/observers.h"
#include "src/bridge/base/outbox.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/changes/transitions.h"
#include "src/bridge/intake/acks.h"
#include "src/bridge/intake/newcomer.h"
#include "src/bridge/intake/recognized.h"
#include "src/bridge/leases/delivery_proof.h"
#include "src/bridge/leases/shards.h"
#include "src/bridge/watch/store_watch.h"
#include "src/core/base/clock.h"
#include "src/core/machine/headers.h"

namespace rung::bridge {

class Intake {
 public:
  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    Transitions& transitions;
    Outbox& outbox;
    Acks& acks;
    LeftUnacked& left;
    DbClock& clock;
    DeliveryProof& proof;
    const RuleBookPtr& rules;  // replaced by a reload
    TaskObserver& observer;
    StoreWatch& store_watch;
    Broker& broker;
    Recognized& recognized;
  };
  struct Settings {
    std::string parked_exchange;  // <prefix>.parked
    DelayRoutes routes;
    std::uint64_t seed = 0;  // for the jitter
  };

  Intake(io::Loop& loop, Deps deps, Settings settings);

  void failed(std::vector<Delivery> deliveries);
  void delayed(std::vector<Delivery> deliveries);
  // Drops waiting deliveries of older sessions of this intake.
  void forget_before(const IntakeSession& session);
  // Inserts the messages that wait for a lease or a free slot.
  void flush();
  // Starts nothing new: waiting messages stay unacked, with the broker.
  void drain() {
    draining_ = true;
    waiting_.clear();
  }
  bool idle() const { return (draining_ || waiting_.empty()) && in_flight_ == 0 && diverting_ == 0; }

 private:
  void wait(Newcomer item);
  // A failed message that names a task of ours.
  struct Known {
    std::shared_ptr<Delivery> delivery;
    Failure failure;
    bool proven = false;  // by its token
    std::shared_ptr<const ReceivedMessage> received;
  };
  void known(std::shared_ptr<Delivery> delivery, Failure failure);
  void ask(const std::shared_ptr<Known>& item);
  void decided(const std::shared_ptr<Known>& item, const Result<Decision>& decision);
  void refused(const std::shared_ptr<Known>& item, const Decision& decision);
  void take_in(const Known& item, std::optional<Continuation> continues, std::string park_reason = {});
  void note(Recognized::As as, const Known& item, TaskId task, std::string reason);
  bool should_flush();
  int anybodys_shard();
  // `for_others`: the shard's owner carries on with the tasks.
  void insert(std::vector<Newcomer> batch, int shard, bool for_others);
  // One answer each; none for a delivery that was skipped because its connection is gone.
  using Answers = std::vector<std::optional<Inserted>>;
  Result<Answers> insert_standing(Store& store, const std::vector<DeliveryTag>& tags,
                                  const std::vector<NewTask>& tasks, const Fence& fence) const;
  void inserted(std::vector<Newcomer>& batch, const std::vector<NewTask>& tasks,
                const Result<Answers>& result);
  void divert(Newcomer item, const std::string& reason);
  void try_later(Newcomer item, const std::string& reason);

  const Deps deps_;
  const Settings settings_;
  NewcomerQueue waiting_;
  Linger linger_;
  OncePerName expired_told_;  // queues
  std::mt19937_64 dice_;
  bool draining_ = false;
  int in_flight_ = 0;
  int diverting_ = 0;
};

}  // namespace rung::bridge
