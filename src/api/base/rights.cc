#include "src/api/base/rights.h"

#include <nlohmann/json.hpp>

namespace rung::api {
namespace {

std::string whose_token(const Person& person) {
  return (person.signed_in ? "the token of " : "the token ") + person.name;
}

std::string lacks_role(const Person& person, const Right& right) {
  const std::string whose = person.name == kTokenRead
                                ? "this token is read-only (http.read_token_file)"
                                : whose_token(person) + " has the role " + std::string(to_word(person.role));
  return whose + ": " + std::string(right.word) + " needs the role " + std::string(to_word(right.least));
}

}  // namespace

void refuse_role(const Person& person, Action action) {
  const Right& right = right_of(action);
  if (!may(person, action))
    throw Problem(403, lacks_role(person, right), {{"needs_role", to_word(right.least)}});
}

Json person_json(const Person& person, const std::optional<std::string>& queue) {
  Json allowed = Json::array(), refused = Json::object();
  for (const Right& right : kRights) {
    if (right.action == Action::probe) continue;
    if (!may(person, right.action)) {
      refused[std::string(right.word)] = lacks_role(person, right);
    } else if (queue && right.by_queue && !holds(person.queues, *queue)) {
      refused[std::string(right.word)] = outside_queues(person, *queue).detail;
    } else {
      allowed.push_back(right.word);
    }
  }
  const auto& queues = person.queues;
  return {{"name", person.name},
          {"role", to_word(person.role)},
          {"queues", queues == nullptr ? Json() : Json(queues->texts())},
          {"may", std::move(allowed)},
          {"may_not", std::move(refused)}};
}

Problem outside_queues(const Person& person, std::string_view queue) {
  std::string all;
  if (person.queues != nullptr) {
    for (const std::string& one : person.queues->texts()) all.append(all.empty() ? "" : ", ").append(one);
  }
  return {403,
          whose_token(person) + " may act only on the queues " + all + ". This request " +
              (queue.empty() ? "names no queue; an exchange can reach any queue"
                             : "concerns the queue " + shown(queue)),
          {{"queue", text_or_null(queue)}}};
}

void refuse_queue(const Person& person, std::string_view queue) {
  if (!holds(person.queues, queue)) throw outside_queues(person, queue);
}

void refuse_target(const Person& person, const Target& target) {
  refuse_queue(person, normalised(target).queue);
}

}  // namespace rung::api
