// Maps paths and methods to handlers: the only table of routes. A test compares openapi.json with it.
// Thread: immutable after construction; many handlers run at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/rules/people.h"
#include "src/http/request/message.h"

namespace rung::http {

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
  Role least;             // not for `probe`
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
                                                {Action::redrive, "redrive", Role::acts, true},
                                                {Action::bulk, "bulk", Role::acts, true},
                                                {Action::pause, "pause", Role::acts, true},
                                                {Action::resume, "resume", Role::acts, true},
                                                {Action::triage, "triage", Role::acts, true},
                                                {Action::body, "body", Role::edits, true},
                                                {Action::edit, "edit", Role::edits, true},
                                                {Action::adopt, "adopt", Role::administers, false}}};

constexpr const Right& right_of(Action action) { return kRights[static_cast<std::size_t>(action)]; }

// Each action has its row.
static_assert([] {
  for (std::size_t i = 0; i < kRights.size(); ++i) {
    if (kRights[i].action != static_cast<Action>(i)) return false;
  }
  return static_cast<std::size_t>(Action::adopt) + 1 == kRights.size();
}());

inline bool may(const Person& person, Action action) { return person.role >= right_of(action).least; }

struct Call {
  const Request& request;
  std::string id;   // the text in place of {id} or {queue}; "" if the pattern has neither
  std::string who;  // for the audit
  Person person;    // whose role allows the route's action; the handler checks the queues
  // Asks for memory, before the handler reads what takes so many bytes; false: there is none now.
  std::function<bool(std::int64_t bytes)> reserve;
};

struct Route {
  std::string_view method, pattern;  // "POST", "/v1/tasks/{id}/cancel"; "/console/*": all below it
  Action action;                     // says which role is needed
  std::function<Response(const Call&)> handle;
  bool for_probes = false;  // also answered on a spare connection
};

class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  struct Match {
    const Route* route = nullptr;  // nullptr: none
    std::string id;
    std::string allow;  // the path's methods, if it lacks this one
  };
  Match match(std::string_view method, std::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  const std::vector<Route> routes_;
};

}  // namespace rung::http
