// The parts of a sidecar, by reference: what one part needs of another one, it calls there. Bridge owns them
// all; the tests' Flow has a set of its own. A part is constructed before those that it names are, so it
// calls none of them in its constructor. Thread: the loop's.
#pragma once

#include <string>

#include "plugin/broker.h"
#include "src/bridge/base/observers.h"
#include "src/bridge/base/store_jobs.h"
#include "src/core/base/clock.h"
#include "src/core/rules/policy.h"
#include "src/io/loop.h"

namespace rung::bridge {

class Acks;
class Attachments;
class DeliveryProof;
class Dispatch;
class FlowCounts;
class Gates;
class Health;
class Horizon;
class Intake;
class Jobs;
class LeftUnacked;
class Outbox;
class QueueNames;
class Shards;
class StoreWatch;
class Transitions;

struct Sidecar {
  io::Loop& loop;
  Broker& broker;
  StoreJobs& jobs;
  Jobs& table;  // of what is done at intervals: constructed before the parts that have rows in it
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
  Dispatch& dispatch;
  Horizon& horizon;
  Intake& intake;
  std::string node;          // our name
  std::string prefix;        // of our exchange names
  Tracer* tracer = nullptr;  // nullptr: traces are off
};

}  // namespace rung::bridge
