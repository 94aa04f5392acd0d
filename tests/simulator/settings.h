// What one simulated world is made of. All of it is drawn from the seed, and each part can be overridden on
// the command line: that is how a failing seed is made smaller. Thread: values.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/core/policy.h"
#include "tests/simulator/events.h"

namespace rung::sim {

// What can go wrong. The words are those of --faults.
enum class Fault : std::uint8_t {
  kill,         // a node ends at any event, and starts again later
  pause,        // SIGSTOP, SIGCONT
  twin,         // a second process under the name of one that runs
  drain,        // an orderly end, and a new start
  cut,          // a connection to the broker is lost, before or after the other side took what was sent
  slow,         // what was sent to the broker arrives only seconds later
  silent,       // a queue that answers no publish for a while
  dead_queue,   // one that never does
  full,         // a queue that refuses
  missing,      // a queue that is not there for a while
  blocked,      // an alarm of the broker
  broker_away,  // it is gone for a while
  store_fail,   // calls fail before they do anything: a deadlock, a read that fails
  store_lose,   // calls do what they are asked, and their answer is lost
  store_stall,  // calls take seconds, perhaps longer than the client waits
  store_away,   // the database is gone for a while
  clock_step,   // the database's clock steps
  upgrade,      // a newer version writes a state that this one does not know
};
inline constexpr int kFaults = 18;
// Who does what. The words are those of --actors.
enum class Actor : std::uint8_t {
  rejects,  // consumers that fail a message, by reject or by a report
  silence,  // consumers that say nothing
  results,  // consumers that report a success
  late,     // answers twice, late, or for an old attempt
  forgers,  // words about another's task
  delays,   // producers of delayed messages
  submits,  // and of those that are handed in without the broker
  big,      // bodies of megabytes, as far as Rung counts them
  people,   // cancel, reschedule, fire, redrive, finish
  bulks,    // the same, of many at once
  pauses,   // of queues, by people
};
inline constexpr int kActors = 11;

const char* word_of(Fault fault);
const char* word_of(Actor actor);

struct Settings {
  std::uint64_t seed = 0;
  int nodes = 1;
  int messages = 50;
  Us active = kMinute;     // how long there are faults and new messages
  std::set<Fault> faults;  // those that may happen
  double trouble = 1;      // how often: times one in ten seconds
  std::set<Actor> actors;
  Ms lease{10'000}, heartbeat{10'000}, window{600'000};
  int max_unconfirmed = 2000, prefetch = 1000;
  std::size_t max_loaded = 1'000'000;
  bool require_token = true;
  bool final_drain = true;  // the world ends by an orderly end of all nodes
  bool record = false;      // keep what is told of each message: for the story

  bool has(Fault fault) const { return faults.contains(fault); }
  bool has(Actor actor) const { return actors.contains(actor); }
};

struct Overrides {
  std::optional<int> nodes, messages, active_s;
  std::optional<std::set<Fault>> faults;
  std::optional<std::set<Actor>> actors;
};

// "kill,pause", "none"; none where a word is unknown.
std::optional<std::set<Fault>> faults_from(const std::string& words);
std::optional<std::set<Actor>> actors_from(const std::string& words);
std::string words_of(const std::set<Fault>& faults);
std::string words_of(const std::set<Actor>& actors);

Settings draw_settings(std::uint64_t seed, const Overrides& overrides);
// The command that makes this world again.
std::string command_for(const Settings& settings, const std::string& planted);

// The config of the world: the same in each, so that a story is quick to read.
inline const std::vector<std::string> kQueues = {"orders", "mails", "bills", "stuck"};
RuleBookPtr world_rules(const Settings& settings);

}  // namespace rung::sim
