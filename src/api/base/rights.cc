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

std::optional<Response> refuse_role(const Person& person, Action action, std::string_view instance) {
  if (may(person, action)) return std::nullopt;
  const Right& right = right_of(action);
  return problem(403, lacks_role(person, right), instance, {{"needs_role", to_word(right.least)}});
}

Json person_json(const Person& person, const std::optional<std::string>& queue) {
  Json allowed = Json::array(), refused = Json::object();
  for (const Right& right : kRights) {
    if (right.action == Action::probe) continue;
    if (!may(person, right.action)) {
      refused[std::string(right.word)] = lacks_role(person, right);
    } else if (queue && right.by_queue && !holds(person.queues, *queue)) {
      refused[std::string(right.word)] = outside_queues(person, *queue);
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

std::string outside_queues(const Person& person, std::string_view queue) {
  std::string all;
  if (person.queues != nullptr) {
    for (const std::string& one : person.queues->texts()) all.append(all.empty() ? "" : ", ").append(one);
  }
  return whose_token(person) + " may act only on the queues " + all + ". This request " +
         (queue.empty() ? "names no queue; an exchange can reach any queue"
                        : "concerns the queue " + shown(queue));
}

Json outside_members(std::string_view queue) { return {{"queue", text_or_null(queue)}}; }

std::optional<Response> refuse_queue(const Person& person, std::string_view queue,
                                     std::string_view instance) {
  if (holds(person.queues, queue)) return std::nullopt;
  return problem(403, outside_queues(person, queue), instance, outside_members(queue));
}

std::optional<Response> refuse_target(const Person& person, const Target& target, std::string_view instance) {
  return refuse_queue(person, normalised(target).queue, instance);
}

}  // namespace rung::api
