// What can be done over HTTP, the least role that it takes, and what a person may do. Thread: constants and
// pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/api/base/message.h"
#include "src/core/rules/people.h"
#include "src/core/task/task.h"

namespace rung::api {

// What can be done over HTTP, and the least role that it takes: the only table of rights. Every route names
// its action; docs/http.md and GET /v1/you show the table.
enum class Action : std::uint8_t {
  probe,  // needs no token
  read,
  submit,
  cancel,
  discard,
  reschedule,
  fire,
  finish,
  redrive,
  bulk,
  pause,
  resume,
  triage,
  body,
  edit,
  adopt
};

struct Right {
  Action action;
  std::string_view word;  // for people and programs. Append only
  Role least;             // not for `probe`; a bulk also takes that of its action
  bool by_queue;          // a token with `queues` may do it to those only
};

inline constexpr std::array<Right, 16> kRights{{{Action::probe, "probe", Role::reads, false},
                                                {Action::read, "read", Role::reads, false},
                                                {Action::submit, "submit", Role::acts, true},
                                                {Action::cancel, "cancel", Role::acts, true},
                                                {Action::discard, "discard", Role::acts, true},
                                                {Action::reschedule, "reschedule", Role::acts, true},
                                                {Action::fire, "fire", Role::acts, true},
                                                {Action::finish, "finish", Role::acts, true},
                                                {Action::redrive, "redrive", Role::redrives, true},
                                                {Action::bulk, "bulk", Role::redrives, true},
                                                {Action::pause, "pause", Role::acts, true},
                                                {Action::resume, "resume", Role::acts, true},
                                                {Action::triage, "triage", Role::acts, true},
                                                {Action::body, "body", Role::edits, true},
                                                {Action::edit, "edit", Role::edits, true},
                                                {Action::adopt, "adopt", Role::administers, false}}};

constexpr const Right& right_of(Action action) { return *std::ranges::find(kRights, action, &Right::action); }

inline bool may(const Person& person, Action action) { return person.role >= right_of(action).least; }

// In the audit, the name of requests with the token of http.read_token_file. No entry of http.tokens_file can
// have it.
inline constexpr std::string_view kTokenRead = "token read";

// What /v1/you and /v1/session say of a person: also what the token may do, and why it may not do the rest,
// so that a console offers only that. `queue`: to this queue; "" = where no queue is named.
Json person_json(const Person& person, const std::optional<std::string>& queue = {});

// A 403: the queue is outside of the person's. "" = an exchange, or no queue at all.
Problem outside_queues(const Person& person, std::string_view queue);
// Throw a 403: if the action takes a higher role; if the queue is outside, or that of the target.
void refuse_role(const Person& person, Action action);
void refuse_queue(const Person& person, std::string_view queue);
void refuse_target(const Person& person, const Target& target);

}  // namespace rung::api
