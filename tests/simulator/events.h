// Virtual time, and the queue of all coming events, ordered by (time, sequence number).
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace rung::sim {

// Virtual us since the simulation began.
using Us = std::int64_t;
inline constexpr Us kMs = 1000, kSecond = 1'000'000, kMinute = 60 * kSecond, kHour = 60 * kMinute;

// A simulated process. While it is paused, its events do not run; they run when it resumes, as after SIGSTOP
// and SIGCONT. No event of a dead process runs.
struct Process {
  bool dead = false;
  bool paused = false;
  std::vector<std::function<void()>> piled;
};
using ProcessPtr = std::shared_ptr<Process>;

class Events {
 public:
  using Task = std::function<void()>;

  Us now() const { return now_; }
  // `of`: the process that the event belongs to; nullptr = none (a server, the network), so it always runs.
  void at(Us when, const ProcessPtr& of, Task task);
  void after(Us delay, const ProcessPtr& of, Task task) { at(now_ + delay, of, std::move(task)); }
  // Runs the events that piled up now, in order, before any new event of the process.
  void resume(const ProcessPtr& process);

  // Runs until `until` (virtual), or until stop().
  void run(Us until);
  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  // The trace: a running hash of all events.
  void mix(std::uint64_t fact) {
    hash_ = (hash_ ^ fact ^ static_cast<std::uint64_t>(now_)) * 0x100000001B3ULL;
    hash_ ^= hash_ >> 29U;
  }
  void mix(std::string_view fact) {
    for (const char c : fact) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  std::uint64_t hash() const { return hash_; }
  std::uint64_t count() const { return count_; }

 private:
  struct Event {
    Us when = 0;
    std::uint64_t sequence = 0;
    ProcessPtr of;
    Task task;
  };
  static bool later(const Event& a, const Event& b) {
    return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
  }

  std::vector<Event> heap_;
  Us now_ = 0;
  std::uint64_t sequence_ = 0, count_ = 0;
  std::uint64_t hash_ = 0xCBF29CE484222325ULL;
  bool stopped_ = false;
};

}  // namespace rung::sim
