#include "src/core/machine/moved.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/core/machine/edit.h"
#include "src/core/machine/submission.h"
#include "src/core/message/digest.h"

namespace rung {
namespace {

std::string moved_origin(std::string_view origin_json, const MovedFrom& from, std::string_view who) {
  auto json = nlohmann::ordered_json::parse(origin_json, nullptr, false);
  if (!json.is_object()) json = nlohmann::ordered_json::object();
  json["moved"] = {{"by", who}, {"from", from.group}, {"id", from.id.str()}, {"version", from.version}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

std::string moved_reason(std::string_view to_group) { return "moved to " + std::string(to_group); }

bool is_moved_away(const Task& now, const MovedFrom& from, std::string_view to_group) {
  return now.state == State::cancelled && now.version == from.version + 1 &&
         now.last_error == moved_reason(to_group);
}

NewTask moved_task(const Task& old, MessagePtr message, std::string_view origin_json, const MovedFrom& from,
                   std::string_view who) {
  NewTask made;
  made.message = std::move(message);
  made.origin_json = moved_origin(origin_json, from, who);
  const bool submitted = !old.message_id.empty() && !content_of_origin(origin_json).empty() &&
                         edit_content_of_origin(origin_json).empty();
  made.intake_key = submitted ? submission_key(old.message_id) : moved_key(from);
  made.moved = true;
  made.same_if_over_since = EpochMs{};  // a row that has ended is the same task, too
  Task& task = made.task = old;
  // What only the old database knows: its instances and leases, other rows, a breaker's probe.
  task.node = 0;
  task.epoch = 0;
  task.parent = {};
  task.replaced_by = {};
  task.probe = 0;
  task.cause.clear();
  task.version = 1;
  task.copy_number = 0;
  task.came_back = 0;
  return made;
}

std::string moved_key(const MovedFrom& from) {
  std::string facts;
  append_field(facts, "move");
  append_field(facts, from.group);
  append_field(facts, from.id.str());
  append_field(facts, std::to_string(from.version));
  return key_of_facts(facts);
}

bool is_same_task(const NewTask& made, const Task& there, std::string_view origin_json) {
  const auto from = moved_from_origin(made.origin_json), was = moved_from_origin(origin_json);
  // Two rows of one group are two tasks, whatever they have in common.
  if (from && was && was->group == from->group) return *was == *from;
  // Submitted in both groups. A row that was given up, perhaps because it has moved away, sends nothing.
  if (there.state == State::cancelled || there.state == State::discarded) return false;
  const std::string content = content_of_origin(made.origin_json);
  return !content.empty() && content == content_of_origin(origin_json);
}

std::optional<MovedFrom> moved_from_origin(std::string_view origin_json) {
  const auto json = nlohmann::json::parse(origin_json, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto moved = json.find("moved");
  if (moved == json.end() || !moved->is_object()) return std::nullopt;
  const auto group = moved->find("from"), id = moved->find("id"), version = moved->find("version");
  if (group == moved->end() || !group->is_string() || id == moved->end() || !id->is_string() ||
      version == moved->end() || !version->is_number_unsigned())
    return std::nullopt;
  const auto parsed = TaskId::parse(id->get<std::string>());
  if (!parsed) return std::nullopt;
  return MovedFrom{group->get<std::string>(), *parsed, version->get<std::uint32_t>()};
}

}  // namespace rung
