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
#include <cstdint>
#include <string_view>

#include "src/core/base/words.h"

namespace rung {

#define RUNG_BUGS(BUG)                                                                                      \
  BUG(ack_before_commit)        /* a delivery is acked before its row is committed */                       \
  BUG(no_fence_on_insert)       /* a row is inserted into a shard whose lease is not held */                \
  BUG(no_fence_on_publish)      /* messages are published after the lease has expired */                    \
  BUG(claim_counted_twice)      /* a repeated claim counts as another attempt */                            \
  BUG(cancel_of_claimed_task)   /* a cancel is accepted while the message is being published */             \
  BUG(one_ms_early)             /* a message is published 1 ms before it is due */                          \
  BUG(confirm_of_wrong_attempt) /* a confirm of another attempt, or of a deposed owner, ends the publish */ \
  BUG(sweep_forgotten)          /* the sweep for due tasks that are not in memory never runs */             \
  BUG(takeover_without_waiting) /* a dead owner's tasks are published while its connection may be alive */  \
  BUG(b1)                       /* the leases are lost, and an unanswered publish keeps the fence closed */ \
  BUG(b2) /* a claim that returns during a drain waits for a fetch that never starts */                     \
  BUG(failure_of_another_counted) /* a failure counts for the task it names, even of another message */     \
  BUG(pause_forgotten)            /* a queue that is paused while it has tasks in memory goes on */         \
  BUG(silence_of_the_detached)    /* silence counts as success although its queue is not attached */        \
  BUG(hold_without_proof)         /* a retry-after holds back its queue, whoever wrote it */                \
  BUG(damaged_gates)              /* a row of gates that cannot be read stops the read of the others */     \
  BUG(silence_of_the_unread)  /* silence counts from the delivery, whether or not it can have been read */  \
  BUG(moved_copy_is_a_repeat) /* a moved copy of a parked message that fails counts as taken in before */   \
  BUG(canary_of_nothing)      /* a canary of which nothing was sent passes */                               \
  BUG(canary_too_large)       /* each step of a canary may be as large as all of it */                      \
  BUG(ramp_at_once)           /* a ramp begins at its highest rate */                                       \
  BUG(edited_stays_parked)    /* a task that an edited copy replaces can still be sent */

#define RUNG_ID(name) name,
#define RUNG_NAME(name) #name,
enum class Bug : std::uint8_t { none, RUNG_BUGS(RUNG_ID) };
template <>
inline constexpr auto kWords<Bug> = std::to_array<std::string_view>({RUNG_BUGS(RUNG_NAME)});
#undef RUNG_ID
#undef RUNG_NAME

#ifdef RUNG_FAILPOINTS
// From now on only that bug is planted.
void plant(Bug bug);
bool planted(Bug bug);
inline constexpr bool kFailpoints = true;
// The name may come in two parts, "claim" and ".before_commit": they are never joined.
void failpoint(std::string_view name, std::string_view rest = {});
#else
inline constexpr bool kFailpoints = false;
constexpr void plant(Bug /*bug*/) {}
constexpr bool planted(Bug /*bug*/) { return false; }
constexpr void failpoint(std::string_view /*name*/, std::string_view /*rest*/ = {}) {}
#endif

}  // namespace rung
