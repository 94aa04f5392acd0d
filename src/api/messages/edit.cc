// POST /v1/tasks/{id}/edit, and GET /v1/tasks/{id}/body and /message: what needs the right to see bodies.
#include "src/api/messages/edit.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "src/api/messages/submission.h"
#include "src/api/tasks/views.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/by_hand.h"

namespace rung::api {

namespace {

constexpr std::size_t kMostUnset = 256;

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

// RFC 6839: application/json, and types that end with +json. Parameters do not count.
bool is_json_type(std::string_view type) {
  std::string name = lower(type.substr(0, type.find(';')));
  while (name.ends_with(' ')) name.pop_back();
  return name == "application/json" || name.ends_with("+json");
}
// Some clients give the character set as the encoding. Anything else is compressed or encrypted.
bool is_plain(std::string_view encoding) {
  const std::string name = lower(encoding);
  return name.empty() || name == "utf-8" || name == "utf8" || name == "identity" || name == "8bit";
}
bool is_other_charset(std::string_view type) {
  const std::string text = lower(type);
  const std::size_t at = text.find("charset=");
  if (at == std::string::npos) return false;
  const std::string_view set = std::string_view(text).substr(at + 8);
  return !set.starts_with("utf-8") && !set.starts_with("\"utf-8") && !set.starts_with("us-ascii");
}

// Only looks whether it is JSON, and where not: nothing is built in memory.
struct Syntax : nlohmann::json_sax<Json> {
  std::size_t wrong_at = 0;  // the byte, from 1; 0 = nothing is wrong

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    wrong_at = std::max<std::size_t>(byte, 1);
    return false;
  }
};

bool has(const std::optional<Table>& headers, std::string_view name) {
  return headers && find(*headers, name) != nullptr;
}

std::string names_of(const std::optional<Table>& headers) {
  std::string names;
  if (!headers) return names;
  for (const auto& [name, value] : *headers) names += (names.empty() ? "" : ", ") + clean_utf8(name, 60);
  return clean_utf8(names, 500);
}

void apply(const Changes& changes, Message& message) {
  if (changes.body) message.body = *changes.body;
  if (changes.set.empty() && changes.unset.empty()) return;
  Table& headers = message.headers ? *message.headers : message.headers.emplace();
  std::erase_if(headers,
                [&](const auto& header) { return std::ranges::count(changes.unset, header.first) > 0; });
  for (const auto& [name, value] : changes.set) {
    const auto there = std::ranges::find(headers, name, &Table::value_type::first);
    if (there != headers.end()) {
      there->second = value;
    } else {
      headers.emplace_back(name, value);
    }
  }
}

void check_headers(const Message& before, const Changes& changes, const ReservedHeaders& reserved,
                   FieldErrors& errors) {
  for (const auto& [name, value] : changes.set) {
    if (is_reserved(name, reserved)) errors.push_back({"set_headers", reserved_text(name)});
    if (std::ranges::count(changes.unset, name) > 0)
      errors.push_back({"unset_headers", shown(name) + " is in set_headers, too"});
  }
  for (const std::string& name : changes.unset) {
    if (is_reserved(name, reserved)) {
      errors.push_back({"unset_headers", reserved_text(name)});
    } else if (!has(before.headers, name)) {
      const std::string names = names_of(before.headers);
      errors.push_back({"unset_headers", "the message has no header " + shown(name) +
                                             (names.empty() ? "; it has none" : "; it has: " + names)});
    }
  }
}

TaskId new_id(EpochMs now) {
  static thread_local std::mt19937_64 engine{std::random_device{}()};
  const std::int64_t first = IdSource::floor(now).value, next = IdSource::floor(now + Ms{1}).value;
  return {first + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(next - first))};
}

}  // namespace

Changes read_changes(Fields& fields) {
  Changes changes;
  changes.body = read_body_bytes(fields);
  if (const Json* set = fields.get("set_headers")) {
    auto table = headers_of(*set);
    if (table) {
      changes.set = *std::move(table);
    } else {
      fields.wrong("set_headers", table.error().message);
    }
  }
  if (const Json* unset = fields.get("unset_headers")) {
    const auto is_text = [](const Json& name) { return name.is_string(); };
    if (!unset->is_array() || unset->size() > kMostUnset || !std::ranges::all_of(*unset, is_text)) {
      fields.wrong("unset_headers", "must be a list of names, at most 256: [\"tenant\"]");
    } else {
      for (const Json& name : *unset) changes.unset.push_back(name.get<std::string>());
    }
  }
  return changes;
}

Original read_original(MysqlStore& store, TaskId id) {
  const auto gone = [&](const std::string& what) { return StoreError({Error::Kind::not_found, what}); };
  auto known = need(store.known({&id, 1}));
  if (known.empty()) throw gone("no task with retry-id " + id.str());
  const auto messages = need(store.messages({&id, 1}));
  if (messages.empty()) throw gone("the message of task " + id.str() + " has been deleted");
  const StoredMessage& stored = messages.front();
  if (stored.message == nullptr)
    throw StoreError({Error::Kind::permanent,
                      "the stored message of task " + id.str() + " is unreadable: " + stored.broken});
  return {std::move(known.front().row), stored.message, std::move(known.front().origin)};
}

Json to_json(const Original& original) {
  const Message& message = *original.message;
  return {
      {"retry_id", original.row.task.id.str()},
      {"version", original.row.task.version},
      {"properties", Json::parse(properties_to_json(message.properties), nullptr, false)},
      {"headers", message.headers ? Json::parse(headers_to_json(*message.headers), nullptr, false) : Json()},
      {"body_base64", to_base64(message.body)}};
}

MessagePtr edited_message(const Original& original, const Changes& changes, const ReservedHeaders& reserved,
                          FieldErrors& errors) {
  const Message& before = *original.message;
  const std::size_t wrong = errors.size();
  check_headers(before, changes, reserved, errors);
  if (errors.size() > wrong) return nullptr;
  auto edited = std::make_shared<Message>(before);
  apply(changes, *edited);
  if (edited->headers && edited->headers != before.headers) {
    if (std::string why = why_no_headers(*edited->headers); !why.empty())
      errors.push_back({"set_headers", std::move(why)});
  }
  if (!changes.body && original.row.task.body_bytes != static_cast<std::int64_t>(before.body.size()))
    errors.push_back({"body", "the database has no body of this message (see its last error): give one"});
  if (std::string why = why_not_json(*edited); !why.empty()) errors.push_back({"body", std::move(why)});
  if (*edited == before)
    errors.push_back(
        {"body", "nothing would change: give another body or header, or redrive the task as it is"});
  return errors.size() > wrong ? nullptr : edited;
}

Event edit_event(const Original& original, const MessagePtr& edited, ByHand by_hand, EpochMs now) {
  const TaskId id = original.row.task.id;
  auto [before, after] = difference(*original.message, *edited);
  EditedMessage message{new_id(now), edited, edit_origin(by_hand.who, id, *edited, original.origin_json),
                        std::move(before), std::move(after)};
  return {id, event::Edit{std::make_shared<const EditedMessage>(std::move(message))}, std::move(by_hand)};
}

Replacement replacement_of(MysqlStore& store, TaskId copy, const Message& edited) {
  auto known = need(store.known({&copy, 1}));
  const std::string by = "it was replaced by task " + copy.str();
  if (known.empty()) return {{}, by + ", which has been deleted since"};
  if (content_of_origin(known.front().origin, MadeBy::edit) != edit_content(edited))
    return {{}, by + " already, with another message: edit that one, if it is parked"};
  return {std::move(known.front().row.task), ""};
}

std::string where_not_json(std::string_view text) {
  Syntax syntax;
  return Json::sax_parse(text, &syntax) ? "" : place_in(text, syntax.wrong_at);
}

std::string why_not_json(const Message& message) {
  const std::string type = message.properties.content_type.value_or("");
  if (!is_json_type(type) || is_other_charset(type)) return {};
  if (!is_plain(message.properties.content_encoding.value_or(""))) return {};
  const std::string where = where_not_json(message.body.str());
  return where.empty() ? "" : where + ": not JSON, which its content type " + shown(type) + " promises";
}

namespace {

constexpr int kMostIds = 4;  // ids tried for the new task
// Of a body that is read and answered: in the buffers of the connection, here, in base64, as the text of the
// response.
constexpr std::int64_t kCopies = 5;

// The version that the edit is for.
std::uint32_t read_version(Context& context, const Call& call, Fields& fields) {
  const auto version = fields.integer("version", 1, UINT32_MAX);
  const auto if_match = version_of(context, call);
  if (!if_match) {
    fields.wrong("version", if_match.error().message);
  } else if (version && *if_match && *version != **if_match) {
    fields.wrong("version", "If-Match names another version");
  } else if (!version && !*if_match && !fields.has("version")) {
    fields.wrong("version", "missing: the version of the task as you saw it (or If-Match with its ETag)");
  } else {
    return version ? static_cast<std::uint32_t>(*version) : if_match->value_or(0);
  }
  return 0;
}

Decision carry_out(Context& context, const Original& original, const MessagePtr& message,
                   const ByHand& by_hand) {
  for (int tries = 1;; ++tries) {
    const EpochMs now = context.reads.read([](MysqlStore& store) { return need(store.now()); });
    auto decisions = need(context.writes.change({edit_event(original, message, by_hand, now)},
                                                static_cast<std::int64_t>(message->body.size())));
    if (decisions.empty()) throw StoreError({Error::Kind::transient, "no answer"});
    if (decisions.front().reason != kIdTaken || tries == kMostIds) return std::move(decisions.front());
  }
}

// What became of it. An original that has been replaced by the same message already is no mistake.
Response tell(Context& context, const Call& call, const Decision& decision, const Message& edited) {
  const TaskId copy = decision.task.replaced_by;
  if (decision.verdict == Decision::Verdict::applied && decision.child != nullptr) {
    context.count("edit", "applied");
    const Task& child = decision.child->task;
    Response response = changed_task(context, child);
    response.status = 201;
    response.headers.emplace_back("Location", "/v1/tasks/" + child.id.str());
    return response;
  }
  Replacement there;
  if (copy.value != 0)
    there = context.reads.read([&](MysqlStore& store) { return replacement_of(store, copy, edited); });
  context.count("edit", there.same ? "unchanged" : "refused");
  if (there.same) return changed_task(context, *there.same);
  if (decision.reason == kBodyTooLarge) return call.problem(413, decision.reason);
  Decision refused = decision;
  if (!there.why_not.empty()) refused.reason = there.why_not;
  return refused_change(call, refused, {{"replaced_by", copy.value == 0 ? Json(nullptr) : Json(copy.str())}});
}

bool is_header_text(std::string_view text) {
  return !text.empty() && text.size() <= 255 &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7f; });
}

// The task of the call with its message.
Original original_of(Context& context, const Call& call) {
  const Task task = find_task(context, call).task;
  if (!call.reserve(task.body_bytes * kCopies))
    throw StoreError({Error::Kind::transient, "too many large messages are being read: try again later"});
  return context.reads.read([&](MysqlStore& store) { return read_original(store, task.id); });
}

}  // namespace

Response edit_task(Context& context, const Call& call) {
  FieldErrors errors;
  Fields fields(*call.json, "", errors);
  const std::uint32_t version = read_version(context, call, fields);
  const std::string reason = fields.text("reason", kErrorBytes).value_or("");
  const Changes changes = read_changes(fields);
  fields.finish();
  if (!errors.empty()) return call.problem(errors);
  const Original original = original_of(context, call);
  const MessagePtr message = edited_message(original, changes, context.reserved, errors);
  if (message == nullptr) return call.problem(errors);
  try {
    return tell(context, call, carry_out(context, original, message, call.by_hand(version, reason)),
                *message);
  } catch (const StoreError&) {
    context.count("edit", "failed");
    throw;
  }
}

// The whole message, as JSON: what an editor shows.
Response show_message(Context& context, const Call& call) {
  const Original found = original_of(context, call);
  Response response = answer(200, to_json(found));
  response.headers.emplace_back("ETag", etag(found.row.task));
  return response;
}

// Never as a page: a body is a stranger's text.
Response show_body(Context& context, const Call& call) {
  const Original found = original_of(context, call);
  const Task& task = found.row.task;
  if (!body_stored(task)) return call.problem(404, not_stored_text(task));
  Response response;
  response.type = "application/octet-stream";
  response.body = found.message->body;
  response.headers = {{"ETag", etag(task)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Content-Disposition", "attachment; filename=\"" + task.id.str() + ".body\""}};
  const std::string type = found.message->properties.content_type.value_or("");
  if (is_header_text(type)) response.headers.emplace_back("Message-Content-Type", type);
  return response;
}

}  // namespace rung::api
