#include "src/core/submission.h"

#include <openssl/evp.h>

#include <array>
#include <nlohmann/json.hpp>

#include "src/core/message_json.h"

namespace rung {
namespace {

std::array<unsigned char, 32> digest_of(std::string_view data) {
  std::array<unsigned char, 32> digest{};
  EVP_Digest(data.data(), data.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  return digest;
}

// With its length, so that different lists of fields never give the same text.
void append_fact(std::string& to, std::string_view field) {
  to.append(std::to_string(field.size())).append(":").append(field);
}

}  // namespace

std::string submission_key(std::string_view message_id) {
  if (message_id.empty()) return {};
  std::string facts;
  append_fact(facts, "submit");
  append_fact(facts, message_id);
  const auto digest = digest_of(facts);
  return {reinterpret_cast<const char*>(digest.data()), 16};
}

std::string submission_content(const NewTask& task, const Directives& directives) {
  const Task& t = task.task;
  const Message& message = *task.message;
  std::string facts;
  for (const std::string* field : {&t.queue, &t.exchange, &t.routing_key, &t.tag, &t.message_id,
                                   &directives.ladder, &message.body.str()})
    append_fact(facts, *field);
  append_fact(facts, std::to_string(directives.max_attempts));
  append_fact(facts, properties_to_json(message.properties));
  append_fact(facts, message.headers ? headers_to_json(*message.headers) : "");
  if (t.silence) {
    append_fact(facts, t.silence->means == Silence::Means::success ? "success" : "failure");
    append_fact(facts, std::to_string(t.silence->after.count()));
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : digest_of(facts)) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
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
