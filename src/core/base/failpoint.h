// Failpoints: named steps at which a test may kill the process, e.g. between a commit, a publish, a confirm
// or an ack and the next step. RUNG_FAILPOINT=NAME or NAME:N in the environment kills the process (SIGKILL)
// at that step, the N-th time it gets there. Compiled into test builds only (CMake option RUNG_FAILPOINTS),
// and to nothing in others. tests/guarantees.md lists the failpoints and what may have happened at each;
// tests/integration/crash kills the process at each of them. Thread: any.
//
// Planted bugs: a test may plant one at a time. Each disables the guard at its place in the code, and the
// simulator must find every one. In other builds planted() is constantly false.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rung {

enum class Bug : std::uint8_t {
  ack_before_commit,           // a delivery is acked before its row is committed
  no_fence_on_insert,          // a row is inserted into a shard whose lease is not held
  no_fence_on_publish,         // messages are published after the lease has expired
  claim_counted_twice,         // a repeated claim counts as another attempt
  cancel_of_claimed_task,      // a cancel is accepted while the message is being published
  one_ms_early,                // a message is published 1 ms before it is due
  confirm_of_wrong_attempt,    // a confirm of another attempt, or of a deposed owner, ends the publish
  sweep_forgotten,             // the sweep for due tasks that are not in memory never runs
  takeover_without_waiting,    // a dead owner's tasks are published while its connection may be alive
  b1,                          // the leases are lost, and an unanswered publish keeps the fence closed
  b2,                          // a claim that returns during a drain waits for a fetch that never starts
  failure_of_another_counted,  // a failure counts for the task it names, even if it is another message's
  pause_forgotten,             // a queue that is paused while it has tasks in memory goes on
  silence_of_the_detached,     // silence counts as success although its queue is not attached
  hold_without_proof,          // a retry-after holds back its queue, whoever wrote it
  damaged_gates,               // a row of gates that cannot be read stops the read of the others
  silence_of_the_unread,       // silence counts from the delivery, whether or not it can have been read
  moved_copy_is_a_repeat,      // a moved copy of a parked message that fails counts as taken in before
  canary_of_nothing,           // a canary of which nothing was sent passes
  canary_too_large,            // each step of a canary may be as large as all of it
  ramp_at_once,                // a ramp begins at its highest rate
  edited_stays_parked,         // a task that an edited copy replaces can still be sent
};
inline constexpr std::array<std::string_view, 22> kBugNames{"ack_before_commit",
                                                            "no_fence_on_insert",
                                                            "no_fence_on_publish",
                                                            "claim_counted_twice",
                                                            "cancel_of_claimed_task",
                                                            "one_ms_early",
                                                            "confirm_of_wrong_attempt",
                                                            "sweep_forgotten",
                                                            "takeover_without_waiting",
                                                            "b1",
                                                            "b2",
                                                            "failure_of_another_counted",
                                                            "pause_forgotten",
                                                            "silence_of_the_detached",
                                                            "hold_without_proof",
                                                            "damaged_gates",
                                                            "silence_of_the_unread",
                                                            "moved_copy_is_a_repeat",
                                                            "canary_of_nothing",
                                                            "canary_too_large",
                                                            "ramp_at_once",
                                                            "edited_stays_parked"};
constexpr std::string_view name_of(Bug bug) { return kBugNames[static_cast<std::size_t>(bug)]; }
constexpr std::optional<Bug> bug_from(std::string_view name) {
  for (std::size_t i = 0; i < kBugNames.size(); ++i) {
    if (kBugNames[i] == name) return static_cast<Bug>(i);
  }
  return std::nullopt;
}

#ifdef RUNG_FAILPOINTS
// From now on only that bug is planted; none: no bug.
void plant(std::optional<Bug> bug);
bool planted(Bug bug);
inline constexpr bool kFailpoints = true;
void failpoint(std::string_view name);
// The name in two parts, e.g. "claim" and ".before_commit": joined only if a failpoint is set.
void failpoint(std::string_view name, std::string_view rest);
#else
inline constexpr bool kFailpoints = false;
constexpr void plant(std::optional<Bug> /*bug*/) {}
constexpr bool planted(Bug /*bug*/) { return false; }
constexpr void failpoint(std::string_view /*name*/) {}
constexpr void failpoint(std::string_view /*name*/, std::string_view /*rest*/) {}
#endif

}  // namespace rung
