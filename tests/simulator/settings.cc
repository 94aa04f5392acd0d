#include "tests/simulator/settings.h"

#include <array>
#include <sstream>

#include "tests/simulator/rng.h"

namespace rung::sim {
namespace {

constexpr std::array<const char*, kFaults> kFaultWords = {
    "kill",        "pause",      "twin",       "drain",   "cut",         "slow",       "silent",
    "dead_queue",  "full",       "missing",    "blocked", "broker_away", "store_fail", "store_lose",
    "store_stall", "store_away", "clock_step", "upgrade", "detach",      "idle"};
constexpr std::array<const char*, kActors> kActorWords = {
    "rejects", "silence", "results", "late",  "forgers", "delays", "submits", "big",
    "people",  "bulks",   "pauses",  "gates", "copies",  "edits",  "canary"};

template <typename T, std::size_t N>
std::optional<std::set<T>> read_words(const std::string& words, const std::array<const char*, N>& known) {
  std::set<T> out;
  std::istringstream in(words);
  for (std::string word; std::getline(in, word, ',');) {
    if (word == "none") continue;
    std::size_t i = 0;
    while (i < N && word != known[i]) ++i;
    if (i == N) return std::nullopt;
    out.insert(static_cast<T>(i));
  }
  return out;
}

template <typename T>
std::string join(const std::set<T>& set) {
  std::string out;
  for (const T one : set) out += (out.empty() ? "" : ",") + std::string(word_of(one));
  return out.empty() ? "none" : out;
}

template <typename T>
std::set<T> draw_set(Rng dice, int count) {
  // Few kinds, some, or all: with all at once, one fault can hide the effect of another.
  const std::uint64_t style = dice.below(4);
  std::set<T> out;
  for (int i = 0; i < count; ++i) {
    if (style == 3 || dice.chance(style == 0 ? 0.15 : style == 1 ? 0.3 : 0.55)) out.insert(static_cast<T>(i));
  }
  return out;
}

}  // namespace

const char* word_of(Fault fault) { return kFaultWords[static_cast<std::size_t>(fault)]; }
const char* word_of(Actor actor) { return kActorWords[static_cast<std::size_t>(actor)]; }
std::optional<std::set<Fault>> faults_from(const std::string& words) {
  return read_words<Fault>(words, kFaultWords);
}
std::optional<std::set<Actor>> actors_from(const std::string& words) {
  return read_words<Actor>(words, kActorWords);
}
std::string words_of(const std::set<Fault>& faults) { return join(faults); }
std::string words_of(const std::set<Actor>& actors) { return join(actors); }

Settings draw_settings(std::uint64_t seed, const Overrides& o) {
  Settings s;
  s.seed = seed;
  Rng dice(seed, "settings");
  s.nodes = static_cast<int>(1 + dice.below(5) * dice.below(2) + dice.below(2) * dice.below(2));
  s.nodes = std::min(s.nodes, 5);
  s.messages = static_cast<int>(dice.spread(10, 400));
  const std::uint64_t length = dice.below(80);
  s.active = length == 0   ? dice.between(2, 6) * kHour
             : length <= 6 ? dice.between(10, 60) * kMinute
                           : dice.between(30, 300) * kSecond;
  const std::array<std::int64_t, 4> leases = {2000, 3000, 5000, 10'000};
  s.lease = Ms{leases[dice.below(4)]};
  const std::array<std::int64_t, 3> beats = {1000, 3000, 10'000};
  s.heartbeat = Ms{beats[dice.below(3)]};
  s.window = Ms{dice.one_in(4) ? 5000 : 600'000};
  s.max_unconfirmed = dice.one_in(3) ? static_cast<int>(dice.between(32, 100)) : 2000;
  s.prefetch = dice.one_in(3) ? static_cast<int>(dice.between(1, 20)) : 1000;
  s.max_loaded = dice.one_in(4) ? static_cast<std::size_t>(dice.between(5, 100)) : 1'000'000;
  s.require_token = !dice.one_in(4);
  s.trouble = std::array<double, 4>{0.3, 1, 2, 4}[dice.below(4)];
  if (s.active >= kHour) s.trouble = 0.02;
  s.faults = draw_set<Fault>(Rng(seed, "faults"), kTroubles);
  // Drawn apart: with them, all silence waits for looks at the broker.
  if (Rng(seed, "detach").one_in(4)) s.faults.insert(Fault::detach);
  if (Rng(seed, "idle").one_in(4)) s.faults.insert(Fault::idle);
  if (Rng(seed, "calm").one_in(16)) s.faults.clear();
  s.actors = draw_set<Actor>(Rng(seed, "actors"), kTogether);
  for (const Actor actor : {Actor::copies, Actor::edits, Actor::canary}) {
    if (Rng(seed, word_of(actor)).one_in(3)) s.actors.insert(actor);
  }
  s.actors.insert(Actor::rejects);
  s.nodes = o.nodes.value_or(s.nodes);
  s.messages = o.messages.value_or(s.messages);
  if (o.active_s) s.active = *o.active_s * kSecond;
  if (o.keep_s) s.keep = *o.keep_s * kSecond;
  if (o.faults) s.faults = *o.faults;
  if (o.actors) s.actors = *o.actors;
  return s;
}

std::string command_for(const Settings& s, const std::string& planted) {
  const Settings plain = draw_settings(s.seed, {});
  std::string out = "tests/simulation --seed " + std::to_string(s.seed);
  if (s.nodes != plain.nodes) out += " --nodes " + std::to_string(s.nodes);
  if (s.messages != plain.messages) out += " --messages " + std::to_string(s.messages);
  if (s.active != plain.active) out += " --active " + std::to_string(s.active / kSecond);
  if (s.keep != plain.keep) out += " --keep " + std::to_string(s.keep / kSecond);
  if (s.faults != plain.faults) out += " --faults " + words_of(s.faults);
  if (s.actors != plain.actors) out += " --actors " + words_of(s.actors);
  if (!planted.empty()) out += " --plant " + planted;
  return out;
}

namespace {

void add_gates(RuleBook::Queues& queues, Rng dice) {
  BreakerRules breaker;
  breaker.open_after = static_cast<int>(dice.between(2, 6));
  breaker.of_last = static_cast<int>(dice.between(6, 30));
  breaker.wait = {Ms{dice.between(500, 4000)}, Ms{dice.between(2000, 10'000)}};
  breaker.probes = static_cast<int>(dice.between(1, 2));
  breaker.probe_timeout = Ms{dice.between(1000, 6000)};
  breaker.close_after = static_cast<int>(dice.between(1, 3));
  queues["orders"].gate.breaker = breaker;
  queues["mails"].gate.breaker = breaker;
  queues["bills"].gate.rate = static_cast<double>(dice.between(5, 50));
  queues["bills"].gate.retry_after = {Ms{5000}, true};
  // Closed for one minute after the first 40 seconds, as the database's clock begins in World.
  queues["stuck"].gate.window =
      std::make_shared<const TimeWindow>(*TimeWindow::parse({"14:13-14:14", "14:15-14:13"}, "UTC"));
}

}  // namespace

RuleBookPtr world_rules(const Settings& s) {
  const auto list = [](std::vector<Ms> delays, double jitter = 0) {
    return *levels::Ladder::from_list(std::move(delays), jitter);
  };
  using std::chrono::hours;
  using std::chrono::minutes;
  RuleBook::Ladders ladders{
      {"default", list({Ms{1000}, Ms{3000}, Ms{8000}, Ms{20'000}})},
      {"quick", list({Ms{40}, Ms{150}, Ms{150}, Ms{700}}, 0.2)},
      {"long", list({Ms{2000}, Ms{30'000}, Ms(minutes{5}), Ms(hours{1}), Ms(hours{6})}, 0.1)}};
  // A task of a steady world ends within minutes: else it would take hours until memory is flat.
  if (s.keep > 0) ladders.insert_or_assign("long", list({Ms{2000}, Ms{30'000}, Ms{60'000}}, 0.1));
  Rng dice(s.seed, "rules");
  using Means = Silence::Means;
  RuleBook::Queues queues;
  const bool copies = s.has(Actor::copies);
  queues["orders"] = {"default", {Means::success, Ms{dice.between(3000, 20'000)}}, copies, 1000};
  queues["mails"] = {
      "quick", {Means::failure, Ms{dice.between(1000, 6000)}}, copies, dice.one_in(3) ? 50 : 1000};
  queues["bills"] = {"long", {Means::success, Ms{dice.between(500, 5000)}}, true, 1000};
  queues["stuck"] = {"default", {Means::success, Ms{5000}}, dice.one_in(2), 1000};
  if (s.has(Actor::gates)) add_gates(queues, Rng(s.seed, "gates"));
  TargetRules targets;
  targets.own = "rung.";
  for (const auto& [name, rules] : queues) targets.configured.insert(name);
  // The config does not name it: whether it is watched follows from its deliveries.
  QueueRules defaults;
  if (s.has(Fault::detach) && !s.has(Actor::gates)) {
    defaults = queues.at("stuck");
    queues.erase("stuck");
  }
  return std::make_shared<RuleBook>(std::move(ladders), std::move(queues), RuleBook::Tags{}, defaults,
                                    std::move(targets));
}

}  // namespace rung::sim
