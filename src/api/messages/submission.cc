// POST /v1/tasks: reads what is submitted, hands it over, and answers task by task.
#include "src/api/messages/submission.h"

#include <openssl/evp.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <variant>

#include "src/api/tasks/views.h"
#include "src/core/machine/by_hand.h"
#include "src/core/message/header_values.h"
#include "src/core/message/identity.h"

namespace rung::api {

namespace {

constexpr int kMostAttempts = 1'000'000;

// Sets the content type, too.
void read_body(Fields& fields, Message& message) {
  const Json* body = fields.get("body");
  if (auto bytes = read_body_bytes(fields)) message.body = *std::move(bytes);
  if (body != nullptr)
    message.properties.content_type = body->is_string() ? "text/plain" : "application/json";
  if (auto type = fields.name("content_type")) message.properties.content_type = *type;
}

void read_properties(Fields& task, const ReservedHeaders& reserved, Message& message) {
  const Json* value = task.get("properties");
  if (value == nullptr) return;
  if (!value->is_object()) return task.wrong("properties", "must be an object: {\"priority\": 5}");
  FieldErrors errors;
  Fields fields(*value, "properties.", errors);
  Properties& p = message.properties;
  if (auto text = fields.name("content_type")) p.content_type = *text;
  if (auto text = fields.name("content_encoding")) p.content_encoding = *text;
  if (auto text = fields.name("correlation_id")) p.correlation_id = *text;
  if (auto text = fields.name("reply_to")) p.reply_to = *text;
  if (p.reply_to && *p.reply_to == reserved.reply_to)
    fields.wrong("reply_to", "the broker accepts " + shown(*p.reply_to) +
                                 " only from the connection that waits for the reply: name a queue");
  if (auto text = fields.name("app_id")) p.app_id = *text;
  if (const auto n = fields.integer("priority", 0, 255)) p.priority = static_cast<std::uint8_t>(*n);
  if (const auto n = fields.integer("timestamp", 0, kYear10000.ms / 1000 - 1))
    p.timestamp = static_cast<std::uint64_t>(*n);
  fields.finish();
  for (FieldError& e : errors) task.wrong(e.field, std::move(e.detail));
}

// The same format as in retry_current: JSON's types, and {"!i32": 5} for other types.
void read_headers(Fields& task, const ReservedHeaders& reserved, Message& message) {
  const Json* value = task.get("headers");
  if (value == nullptr || (value->is_object() && value->empty())) return;
  const auto wrong = [&](std::string why) { task.wrong("headers", std::move(why)); };
  auto table = headers_of(*value);
  if (!table) return wrong(table.error().message);
  if (std::string why = why_no_headers(*table); !why.empty()) return wrong(std::move(why));
  for (const auto& [name, content] : *table) {
    if (is_reserved(name, reserved)) return wrong(reserved_text(name));
  }
  message.headers = std::move(*table);
}

void read_due(Fields& fields, Submission& s) {
  const auto delay = fields.duration("delay", Ms{0});
  s.at = fields.time("at");
  if (delay) s.delay = *delay;
  if (fields.has("delay") == fields.has("at")) {
    fields.wrong("delay", fields.has("at")
                              ? "cannot be combined with at"
                              : "missing: set \"delay\": \"30m\" or \"at\": \"2026-11-21T17:05:00Z\"");
  }
}

void read_rules(Fields& fields, const RuleBook& rules, Submission& s) {
  s.directives.ladder = fields.name("ladder").value_or("");
  if (!s.directives.ladder.empty() && rules.ladder(s.directives.ladder) == nullptr) {
    std::string names;
    for (const auto& [name, ladder] : rules.ladders()) names.append(names.empty() ? "" : ", ").append(name);
    fields.wrong("ladder", "unknown ladder; available: " + names);
  }
  s.directives.max_attempts = static_cast<int>(fields.integer("max_attempts", 1, kMostAttempts).value_or(0));
  s.task.task.silence = fields.silence("success");
}

}  // namespace

std::optional<std::string> read_body_bytes(Fields& fields) {
  const Json* body = fields.get("body");
  const Json* base64 = fields.get("body_base64");
  if (body != nullptr && base64 != nullptr) {
    fields.wrong("body", "cannot be combined with body_base64");
    return std::nullopt;
  }
  if (body != nullptr) return body->is_string() ? body->get<std::string>() : dump(*body);
  if (base64 == nullptr) return std::nullopt;
  auto bytes = base64->is_string() ? from_base64(base64->get_ref<const std::string&>()) : std::nullopt;
  if (!bytes) fields.wrong("body_base64", "must be base64 (RFC 4648, A-Z a-z 0-9 + /)");
  return bytes;
}

ReadTask read_task(const Json& json, std::string prefix, const RuleBook& rules,
                   const ReservedHeaders& reserved, std::string_view who, FieldErrors& errors) {
  ReadTask out;
  if (!json.is_object()) {
    if (prefix.ends_with('.')) prefix.pop_back();
    errors.push_back(
        {prefix.empty() ? "body" : prefix, "a task must be an object: {\"queue\": ..., \"delay\": ...}"});
    return out;
  }
  Fields fields(json, std::move(prefix), errors);
  Submission& s = out.submission;
  Task& task = s.task.task;
  const Target target = fields.target(rules.targets());
  task.queue = target.queue;
  task.exchange = target.exchange;
  task.routing_key = target.routing_key;
  task.tag = fields.name("tag").value_or("");
  task.message_id = fields.name("message_id").value_or("");
  if (!target.is_set()) {
    const TagRules* tag = task.tag.empty() ? nullptr : rules.tag(task.tag);
    if (tag == nullptr || !tag->target.is_set()) {
      fields.wrong("queue",
                   "missing target: set queue, or exchange and routing_key, or a tag that the config maps");
    } else if (std::string why = refused_target(tag->target, rules.targets()); !why.empty()) {
      fields.wrong("tag", std::move(why));
    }
  }
  Message message;
  message.properties.delivery_mode = 2;
  read_body(fields, message);
  read_properties(fields, reserved, message);
  read_headers(fields, reserved, message);
  if (!task.tag.empty()) message.properties.type = task.tag;
  if (!task.message_id.empty()) message.properties.message_id = task.message_id;
  read_due(fields, s);
  read_rules(fields, rules, s);
  fields.finish();

  task.body_bytes = static_cast<std::int64_t>(message.body.size());
  task.digest = message_digest(message);
  s.task.message = std::make_shared<Message>(std::move(message));
  out.content = submission_content(s.task, s.directives);
  s.task.intake_key = submission_key(task.message_id);
  s.task.same_if_over_since = EpochMs{};
  s.task.origin_json = submission_origin(who, out.content);
  return out;
}

namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

}  // namespace

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 == 0) {
    for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  }
  if (text.size() % 4 == 1 || text.find_first_not_of(kBase64) != std::string_view::npos) return std::nullopt;
  std::string digits(text);
  digits.resize((text.size() + 3) / 4 * 4, 'A');  // the digit of 0
  std::string out(digits.size() / 4 * 3, '\0');
  EVP_DecodeBlock(bytes_of(out), bytes_of(digits), static_cast<int>(digits.size()));
  const std::string beyond = out.substr(text.size() * 3 / 4);
  out.resize(out.size() - beyond.size());
  return beyond.find_first_not_of('\0') == std::string::npos ? std::optional(std::move(out)) : std::nullopt;
}

std::string to_base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // it writes a final NUL
  EVP_EncodeBlock(bytes_of(out), reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  out.pop_back();
  return out;
}

namespace {

// A message's headers must fit into one frame (128 KB in RabbitMQ), with its properties and what Rung adds.
constexpr std::size_t kMostHeaderBytes = 120 * 1024;
constexpr std::size_t kMostHeaders = 256;  // per table

bool crowded(const Json& json) {
  if (json.is_structured() && json.size() > kMostHeaders && json.is_object()) return true;
  return json.is_structured() && std::ranges::any_of(json, [](const Json& inner) { return crowded(inner); });
}

// Names are AMQP short strings, also in nested tables.
bool names_fit(const Table& table);
bool names_fit(const Value& value) {
  if (const auto* table = std::get_if<Table>(&value.v)) return names_fit(*table);
  const auto* array = std::get_if<Array>(&value.v);
  return array == nullptr || std::ranges::all_of(*array, [](const Value& v) { return names_fit(v); });
}
bool names_fit(const Table& table) {
  return std::ranges::all_of(
      table, [](const auto& entry) { return entry.first.size() <= kNameBytes && names_fit(entry.second); });
}

// A lower bound of the size in AMQP's encoding.
std::size_t frame_bytes(const Table& table);
std::size_t frame_bytes(const Value& value) {
  constexpr std::size_t kType = 1, kLength = 4, kNumber = 8;
  if (const auto* text = value.as_text()) return kType + kLength + text->size();
  if (const auto* table = std::get_if<Table>(&value.v)) return kType + frame_bytes(*table);
  const auto* array = std::get_if<Array>(&value.v);
  if (array == nullptr) return kType + kNumber;
  std::size_t bytes = kType + kLength;
  for (const Value& inner : *array) bytes += frame_bytes(inner);
  return bytes;
}
std::size_t frame_bytes(const Table& table) {
  std::size_t bytes = 4;
  for (const auto& [name, value] : table) bytes += 1 + name.size() + frame_bytes(value);
  return bytes;
}

}  // namespace

Result<Table> headers_of(const Json& json) {
  if (!json.is_object()) return permanent("must be an object: {\"tenant\": \"acme\"}");
  // Checked before reading, which is quadratic in the number of names.
  if (crowded(json)) return permanent("more than " + std::to_string(kMostHeaders) + " headers in one table");
  auto table = headers_from_json(dump(json));
  if (!table) {
    return permanent(
        "unsupported value: use a string, number, true, false, null, list or object, or an AMQP type such as "
        "{\"!i32\": 5}");
  }
  return table;
}

std::string why_no_headers(const Table& headers) {
  if (headers.size() > kMostHeaders)
    return "more than " + std::to_string(kMostHeaders) + " headers in one table";
  if (!names_fit(headers)) return "a header name is longer than 255 bytes";
  if (frame_bytes(headers) <= kMostHeaderBytes) return {};
  return "the headers exceed " + std::to_string(kMostHeaderBytes) + " bytes, the limit for one frame";
}

bool is_reserved(std::string_view name, const ReservedHeaders& reserved) {
  return reserved.contains(name) || is_own_header(name);
}

std::string reserved_text(std::string_view name) {
  return shown(name) + " is reserved for the broker or for Rung: leave it out";
}

namespace {

constexpr const char* kPath = "/v1/tasks";

// The outcome for one task of a request.
struct Item {
  int status = 0;
  Json json;  // the task, or the problem
  std::string etag, id;
};

Item refused(int status, std::string_view detail, const Json& more = Json()) {
  return {status, problem_json(status, detail, kPath, more), "", ""};
}

Item with_task(int status, const TaskRow& row) {
  return {status, to_json(row), etag(row.task), row.task.id.str()};
}

// Where it will go, as begin_delay() decides. "" = to an exchange.
std::string queue_of(const Task& task, const RuleBook& rules) {
  Target target{task.queue, task.exchange, task.routing_key};
  const TagRules* tag = task.tag.empty() ? nullptr : rules.tag(task.tag);
  if (!target.is_set() && tag != nullptr) target = tag->target;
  return normalised(target).queue;
}

Item same_or_conflict(const KnownTask& known, const std::string& content) {
  if (content_of_origin(known.origin, MadeBy::submission) == content) return with_task(200, known.row);
  return refused(
      409,
      "message_id " + known.row.task.message_id +
          " was already submitted with different content; a new task needs a message_id of its own",
      {{"code", "id_reused"}, {"retry_id", known.row.task.id.str()}});
}

const char* word_of(int status) {
  switch (status) {
    case 201:
      return "created";
    case 200:
      return "same";
    case 409:
      return "conflict";
    case 400:
    case 403:
    case 413:
      return "invalid";
    default:
      return "failed";
  }
}

// The tasks of one request: reads them, hands them over, and builds their answers one by one.
class Batch {
 public:
  Batch(Context& context, const Call& call) : context_(context), call_(call) {}

  void read(const Json& json, const std::string& prefix, const RuleBook& rules) {
    FieldErrors errors;
    ReadTask read = read_task(json, prefix, rules, context_.reserved, call_.who, errors);
    Item item;
    if (!errors.empty()) {
      item = {400, problem_json(errors, kPath), "", ""};
    } else if (const std::string queue = queue_of(read.submission.task.task, rules);
               !holds(call_.person.queues, queue)) {
      item = refused(403, outside_queues(call_.person, queue), outside_members(queue));
    } else {
      sent_.push_back(items_.size());
      contents_.push_back(std::move(read.content));
      batch_.push_back(std::move(read.submission));
    }
    items_.push_back(std::move(item));
  }

  // Throws if the whole request failed.
  std::vector<Item> submit() {
    if (!batch_.empty()) {
      auto answers = context_.writes.submit(std::move(batch_));
      if (!answers) {
        context_.count("submit", "failed", static_cast<std::int64_t>(sent_.size()));
        throw StoreError(answers.error());
      }
      tell(*answers);
    }
    for (const Item& item : items_) context_.count("submit", word_of(item.status));
    return std::move(items_);
  }

 private:
  void tell(const std::vector<bridge::Submitted>& answers) {
    std::vector<TaskId> duplicates;
    std::vector<std::size_t> at;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      Item& item = items_[sent_[i]];
      switch (answers[i].answer.how) {
        case Inserted::How::inserted:
          item = with_task(201, context_.named(answers[i].task));
          break;
        case Inserted::How::duplicate:
          duplicates.push_back(answers[i].answer.id);
          at.push_back(i);
          break;
        case Inserted::How::too_large:
          item = refused(413, "the body is too large for the database (max_allowed_packet)");
          break;
        case Inserted::How::not_held:
        case Inserted::How::id_taken:
          item = refused(503, "nothing was written: try again");
          break;
      }
    }
    if (duplicates.empty()) return;
    auto rows = context_.reads.run([&](MysqlStore& store) { return store.known(duplicates); });
    std::map<TaskId, KnownTask> known;
    for (KnownTask& one : rows.value_or(std::vector<KnownTask>{}))
      known.emplace(one.row.task.id, std::move(one));
    for (std::size_t i = 0; i < at.size(); ++i) {
      Item& item = items_[sent_[at[i]]];
      if (!rows) {  // the other tasks are committed, whatever happens here
        item = refused(503,
                       "a task with this message_id exists, and its content could not be compared: try again",
                       {{"retry_id", duplicates[i].str()}});
      } else if (const auto found = known.find(duplicates[i]); found != known.end()) {
        item = same_or_conflict(found->second, contents_[at[i]]);
      } else {
        item = refused(503, "the task of this message_id is just being deleted: try again");
      }
    }
  }

  Context& context_;
  const Call& call_;
  std::vector<Submission> batch_;
  std::vector<std::size_t> sent_;  // maps batch_ to items_
  std::vector<std::string> contents_;
  std::vector<Item> items_;
};

Response one_answer(const Item& item) {
  Response response = answer(item.status, item.json);
  if (item.status >= 300) {
    response.type = "application/problem+json";
    if (item.status == 503) response.headers.emplace_back("Retry-After", "1");
    return response;
  }
  response.headers.emplace_back("ETag", item.etag);
  if (item.status == 201) response.headers.emplace_back("Location", kPath + ("/" + item.id));
  return response;
}

Response many_answers(std::vector<Item> items) {
  int created = 0, same = 0, failed = 0;
  Json results = Json::array();
  for (Item& item : items) {
    created += item.status == 201 ? 1 : 0;
    same += item.status == 200 ? 1 : 0;
    failed += item.status >= 300 ? 1 : 0;
    Json one = {{"status", item.status}};
    if (item.status < 300) {
      one["location"] = kPath + ("/" + item.id);
      one["etag"] = item.etag;
    }
    one[item.status < 300 ? "task" : "error"] = std::move(item.json);
    results.push_back(std::move(one));
  }
  const int status = failed > 0 ? 207 : same > 0 ? 200 : 201;
  return answer(status,
                {{"created", created}, {"same", same}, {"failed", failed}, {"results", std::move(results)}});
}

}  // namespace

Response submit_tasks(Context& context, const Call& call) {
  const Json& json = *call.json;
  const RuleBookPtr rules = context.rules();
  Batch batch(context, call);
  if (!json.is_array()) {
    batch.read(json, "", *rules);
    return one_answer(batch.submit().front());
  }
  if (json.empty() || json.size() > kMostTasks)
    return call.problem(400, "an array must hold 1 to " + std::to_string(kMostTasks) + " tasks");
  for (std::size_t i = 0; i < json.size(); ++i)
    batch.read(json[i], "tasks[" + std::to_string(i) + "].", *rules);
  return many_answers(batch.submit());
}

}  // namespace rung::api
