#include "src/core/machine/submission.h"

#include <nlohmann/json.hpp>

#include "src/core/message/identity.h"
#include "src/core/message/message.h"

namespace rung {

std::string submission_key(std::string_view message_id) {
  if (message_id.empty()) return {};
  std::string facts;
  append_field(facts, "submit");
  append_field(facts, message_id);
  return key_of_facts(facts);
}

std::string submission_content(const NewTask& task, const Directives& directives) {
  const Task& t = task.task;
  const Message& message = *task.message;
  std::string facts;
  for (const std::string* field : {&t.queue, &t.exchange, &t.routing_key, &t.tag, &t.message_id,
                                   &directives.ladder, &message.body.str()})
    append_field(facts, *field);
  append_field(facts, std::to_string(directives.max_attempts));
  append_field(facts, properties_to_json(message.properties));
  append_field(facts, message.headers ? headers_to_json(*message.headers) : "");
  if (t.silence) {
    append_field(facts, t.silence->means == Silence::Means::success ? "success" : "failure");
    append_field(facts, std::to_string(t.silence->after.count()));
  }
  return to_hex(sha256(facts));
}

std::string submission_origin(std::string_view who, std::string_view content) {
  const nlohmann::json json = {{"submitted", {{"by", who}, {"content", content}}}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string content_of_origin(std::string_view origin_json) {
  const nlohmann::json json = nlohmann::json::parse(origin_json, nullptr, false);
  if (!json.is_object()) return {};
  const auto submitted = json.find("submitted");
  if (submitted == json.end() || !submitted->is_object()) return {};
  const auto content = submitted->find("content");
  return content != submitted->end() && content->is_string() ? content->get<std::string>() : std::string{};
}

}  // namespace rung
