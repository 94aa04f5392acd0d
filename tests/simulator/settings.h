// The settings of one simulated world. All are drawn from the seed, and each can be overridden on the command
// line; that is how a failing seed is reduced. Thread: values.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/core/rules/policy.h"
#include "tests/simulator/events.h"

namespace rung::sim {

// The faults; their names are those of --faults.
enum class Fault : std::uint8_t {
  kill,         // a node is killed at any event, and starts again later
  pause,        // SIGSTOP, SIGCONT
  twin,         // a second process with the name of a running node
  drain,        // an orderly shutdown, and a new start
  cut,          // a connection to the broker is lost, before or after the other side received what was sent
  slow,         // data sent to the broker arrives seconds late
  silent,       // a queue that answers no publish for a while
  dead_queue,   // a queue that never answers again
  full,         // a queue that refuses publishes
  missing,      // a queue that does not exist for a while
  blocked,      // an alarm in the broker
  broker_away,  // the broker is unavailable for a while
  store_fail,   // calls fail before they do anything: a deadlock, a read that fails
  store_lose,   // calls take effect, but their answer is lost
  store_stall,  // calls take seconds, perhaps longer than the client waits
  store_away,   // the database is unavailable for a while
  clock_step,   // the database's clock steps
  upgrade,      // a newer version of Rung writes a state that this one does not know
  detach,       // a queue is not attached for a while: what its consumers reject is dropped
  idle,         // a queue has no consumer for a while: what was delivered to it is not read
};
inline constexpr int kFaults = 20;
inline constexpr int kTroubles = 18;  // the first ones are drawn together
// The actors; their names are those of --actors.
enum class Actor : std::uint8_t {
  rejects,  // consumers that fail messages, by reject or by a report
  silence,  // consumers that report nothing
  results,  // consumers that report a success
  late,     // consumers that answer twice, late, or for an old attempt
  forgers,  // results for another message's task
  delays,   // producers of delayed messages
  submits,  // producers that submit them without the broker
  big,      // bodies that count as megabytes for Rung
  people,   // people who cancel, reschedule, fire, redrive, finish
  bulks,    // the same, for many tasks at once
  pauses,   // people who pause and resume queues
  gates,    // breakers, rates, a window and retry-after in the config
  copies,   // people who move copies from rung.parked: to their queue, to another, to rung.failed
  edits,    // people who edit parked messages
  canary,   // people who redrive with a canary and a ramp
};
inline constexpr int kActors = 15;
inline constexpr int kTogether = 12;  // the first ones are drawn together

const char* word_of(Fault fault);
const char* word_of(Actor actor);

struct Settings {
  std::uint64_t seed = 0;
  int nodes = 1;
  int messages = 50;
  Us active = kMinute;     // the active time: faults and new messages occur
  std::set<Fault> faults;  // those that may occur
  double trouble = 1;      // frequency of faults: 1 = one in ten seconds
  std::set<Actor> actors;
  Ms lease{10'000}, heartbeat{10'000}, window{600'000};
  int max_unconfirmed = 2000, prefetch = 1000;
  std::size_t max_loaded = 1'000'000;
  bool require_token = true;
  // Steady worlds (--keep): what ended so long ago is judged and deleted, so that memory stays flat. 0: all
  // rows are kept.
  Us keep = 0;
  bool record = false;  // record what happens to each message, for the story

  bool has(Fault fault) const { return faults.contains(fault); }
  bool has(Actor actor) const { return actors.contains(actor); }
};

struct Overrides {
  std::optional<int> nodes, messages, active_s, keep_s;
  std::optional<std::set<Fault>> faults;
  std::optional<std::set<Actor>> actors;
};

// "kill,pause", "none"; nullopt if a name is unknown.
std::optional<std::set<Fault>> faults_from(const std::string& words);
std::optional<std::set<Actor>> actors_from(const std::string& words);
std::string words_of(const std::set<Fault>& faults);
std::string words_of(const std::set<Actor>& actors);

Settings draw_settings(std::uint64_t seed, const Overrides& overrides);
// The command that reproduces this world.
std::string command_for(const Settings& settings, const std::string& planted);

// The config of every world: always the same, so that stories are easy to read.
inline const std::vector<std::string> kQueues = {"orders", "mails", "bills", "stuck"};
RuleBookPtr world_rules(const Settings& settings);

}  // namespace rung::sim
