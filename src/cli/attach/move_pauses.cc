#include "src/cli/attach/move_pauses.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string_view>

#include "src/api/queues/pauses.h"
#include "src/cli/attach/under_way.h"
#include "src/cli/service/retry.h"
#include "src/core/base/rfc3339.h"

namespace rung::cli {
namespace {

constexpr std::string_view kReason = "rung move to ", kRun = " (run ";

// "us" of "rung move to us (run 4f2a9c01)"; "" = a person's.
std::string moves_to(const std::string& reason) {
  if (!reason.starts_with(kReason)) return {};
  const std::string rest = reason.substr(kReason.size());
  return rest.substr(0, rest.rfind(kRun));
}

}  // namespace

MovePauses::MovePauses(std::string queue, const std::string& to)
    : queue_(std::move(queue)),
      to_(to),
      reason_(fmt::format("{}{}{}{:08x})", kReason, to, kRun, std::random_device{}())) {}

bool MovePauses::is_ours(const Pause& pause) const { return moves_to(pause.reason) == to_; }

Result<std::optional<Pause>> MovePauses::in_force(const MoveGroup& group) const {
  const auto pauses = retry_transient([&] { return group.session.store->pauses(); });
  if (!pauses) return tl::unexpected(pauses.error());
  const auto found =
      std::ranges::find_if(*pauses, [&](const Pause& p) { return p.queue == queue_ && !p.over; });
  return found == pauses->end() ? std::nullopt : std::optional(*found);
}

Result<bool> MovePauses::is_left_over(const MoveGroup& group) const {
  const auto pause = in_force(group);
  if (!pause) return tl::unexpected(pause.error());
  if (!*pause) return false;
  const std::string other = moves_to((*pause)->reason);
  if (other.empty() || other == to_) return is_ours(**pause);
  return permanent(fmt::format(
      "a move of {0} to {1} was not finished: put the queue back under groups.{1}.queues and run `rung move "
      "{0} --to {1}` first",
      queue_, other));
}

int MovePauses::look(const std::vector<MoveGroup*>& groups) {
  for (MoveGroup* group : groups) {
    auto before = in_force(*group);
    if (!before) return report_error(before.error());
    const bool persons = *before && !is_ours(**before);
    if (persons && (*before)->until) {
      return report_error(kUserError,
                          fmt::format("queue {} is paused in {} until {} UTC: resume it, or pause it without "
                                      "an end, and run rung move again",
                                      queue_, group->name, format_utc(*(*before)->until)));
    }
    held_.push_back({group, *std::move(before), persons});
  }
  return kSuccess;
}

int MovePauses::set() {
  for (Held& held : held_) {
    if (held.persons) continue;
    held.made = true;  // also if the answer is lost
    // Of a left-over it changes the reason alone: since when it holds stays as it is.
    const auto done = retry_transient([&] {
      return held.group->session.store->pause({queue_, std::nullopt, cli_user(), reason_});
    });
    if (!done) return report_error(done.error());
    tell("group " + held.group->name + ": queue " + queue_ + " is paused");
  }
  return kSuccess;
}

Result<void> MovePauses::hold() const {
  for (const Held& held : held_) {
    const auto pause = in_force(*held.group);
    if (!pause) return tl::unexpected(pause.error());
    if (held.persons ? *pause == held.before : *pause && (*pause)->reason == reason_ && !(*pause)->until)
      continue;
    return permanent("group " + held.group->name +
                     ": another rung move of this queue is under way, or somebody has resumed or paused it: "
                     "run rung move again");
  }
  return {};
}

std::optional<EpochMs> MovePauses::target_since() const {
  const auto& before = held_.back().before;
  return before ? std::optional(before->since) : std::nullopt;
}

bool MovePauses::has_left_over() const {
  return std::ranges::any_of(held_, [](const Held& held) { return held.before && !held.persons; });
}

// `persons`: the pause that takes its place; nullptr: the queue flows.
int MovePauses::end(Held& held, const Pause* persons) {
  const auto failed = [&](const Error& error) {
    return report_error(exit_of(error),
                        fmt::format("group {0}: queue {1} is still paused: {2}; to lift it: rung resume {1} "
                                    "--group {0}",
                                    held.group->name, queue_, error.message));
  };
  const auto pause = in_force(*held.group);
  if (!pause) return failed(pause.error());
  if (!*pause) return kSuccess;
  if ((*pause)->reason != reason_) {
    held.persons = !is_ours(**pause);
    tell(fmt::format("group {}: queue {} stays paused {}", held.group->name, queue_,
                     api::pause_text(**pause)));
    return kSuccess;
  }
  Store& store = *held.group->session.store;
  if (persons == nullptr) {
    const auto done = retry_transient([&] { return store.resume(queue_, cli_user(), reason_); });
    return done ? kSuccess : failed(done.error());
  }
  const auto done = retry_transient([&] {
    return store.pause({queue_, std::nullopt, cli_user(), persons->reason});
  });
  if (!done) return failed(done.error());
  held.persons = true;
  return kSuccess;
}

int MovePauses::lift(bool nothing_moved) {
  const auto persons = std::ranges::find_if(held_, &Held::persons);
  const Pause* kept = persons == held_.end() || nothing_moved ? nullptr : &*persons->before;
  int code = kSuccess;
  for (Held& held : held_) {
    if (!held.made) continue;
    const int ended = end(held, &held == &held_.back() ? kept : nullptr);
    if (code == kSuccess) code = ended;
  }
  return code;
}

std::string MovePauses::kept() const {
  std::string text;
  for (const Held& held : held_) {
    if (held.persons) text += (text.empty() ? "" : " and ") + held.group->name;
  }
  return text;
}

}  // namespace rung::cli
