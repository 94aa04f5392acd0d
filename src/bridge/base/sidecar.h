// The parts of a sidecar, by reference: what one part needs of another one, it calls there. Bridge owns them
// all; the tests' Flow has a set of its own. In its constructor a part may call the loop, the broker and the
// table of jobs alone: the others may not be there yet. What this file includes (the clock, tasks, rules, the
// machine, the broker, the store, the loop) no part includes again. Thread: the loop's.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "plugin/broker.h"
#include "src/bridge/base/observers.h"
#include "src/bridge/base/store_jobs.h"
#include "src/core/base/time.h"
#include "src/core/machine/headers.h"
#include "src/core/rules/policy.h"
#include "src/io/loop.h"
#include "src/store/system.h"

namespace rung::bridge {

class Acks;
class Attachments;
class DeliveryProof;
class Dispatch;
class FlowCounts;
class Gates;
class Horizon;
class Inserts;
class Intake;
class Jobs;
class LeftUnacked;
class Outbox;
class QueueNames;
class Shards;
class StoreWatch;
class Transitions;

struct BridgeSettings {
  NodeIdentity identity = {};
  Ms lease{std::chrono::seconds{10}};
  Ms window{std::chrono::minutes{10}};
  std::size_t max_loaded = 1'000'000;
  Ms heartbeat{std::chrono::seconds{10}};  // of the broker connections
  int max_unconfirmed = 2000;
  std::string prefix = "rung";
  DelayRoutes::Moves delays = {};  // `delays` in the config
  std::optional<Ms> retention = {};
  bool require_token = true;  // results.require_token
  Tracer* tracer = nullptr;   // must outlive the bridge; nullptr: traces are off
};

struct Sidecar {
  const BridgeSettings& settings;
  io::Loop& loop;
  Broker& broker;
  StoreJobs& jobs;
  Jobs& table;               // of what is done at intervals
  const RuleBookPtr& rules;  // replaced by a reload
  DbClock& clock;
  QueueNames& names;
  Health& health;
  const RecordEvent& record;
  Attachments& attachments;
  StoreWatch& store_watch;
  DeliveryProof& proof;
  Gates& gates;
  FlowCounts& counts;
  Outbox& outbox;
  Acks& acks;
  Shards& shards;
  LeftUnacked& left;
  Transitions& transitions;
  Inserts& inserts;
  Dispatch& dispatch;
  Horizon& horizon;
  Intake& intake;
};

}  // namespace rung::bridge
