// POST /v1/tasks: reads what is submitted, hands it over, and answers task by task. POST /v1/tasks/{id}/edit,
// GET /v1/tasks/{id}/body and /message: what needs the right to see bodies.
#include "src/api/messages/messages.h"

#include <openssl/evp.h>
#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <random>
#include <variant>

#include "src/api/tasks/tasks.h"
#include "src/core/base/utf8.h"
#include "src/core/message/header_values.h"
#include "src/core/message/identity.h"

namespace rung::api {

namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

// A message's headers must fit into one frame (128 KB in RabbitMQ), with its properties and what Rung adds.
constexpr std::size_t kMostHeaderBytes = 120 * 1024;
constexpr std::size_t kMostHeaders = 256;  // per table

bool crowded(const Json& json) {
  if (json.is_structured() && json.size() > kMostHeaders && json.is_object()) return true;
  return json.is_structured() && std::ranges::any_of(json, [](const Json& inner) { return crowded(inner); });
}

// What a table takes in a frame.
struct InFrame {
  std::size_t bytes = 0;        // a lower bound of its size in AMQP's encoding
  bool are_names_short = true;  // as AMQP's must be, also in nested tables
};
void measure(const Table& table, InFrame& out);
void measure(const Value& value, InFrame& out) {
  constexpr std::size_t kType = 1, kLength = 4, kNumber = 8;
  out.bytes += kType;
  if (const auto* table = std::get_if<Table>(&value.v)) return measure(*table, out);
  const auto* const array = std::get_if<Array>(&value.v);
  const auto* const text = value.as_text();
  out.bytes += text != nullptr ? kLength + text->size() : array != nullptr ? kLength : kNumber;
  if (array == nullptr) return;
  for (const Value& inner : *array) measure(inner, out);
}
void measure(const Table& table, InFrame& out) {
  out.bytes += 4;
  for (const auto& [name, value] : table) {
    out.bytes += 1 + name.size();
    out.are_names_short = out.are_names_short && name.size() <= kNameBytes;
    measure(value, out);
  }
}

// The format of retry_current: JSON's types, and {"!i32": 5} for other types. Errors: for people.
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

// Why no message can have these headers; "" = one can.
std::string why_no_headers(const Table& headers) {
  if (headers.size() > kMostHeaders)
    return "more than " + std::to_string(kMostHeaders) + " headers in one table";
  InFrame in_frame;
  measure(headers, in_frame);
  if (!in_frame.are_names_short) return "a header name is longer than 255 bytes";
  if (in_frame.bytes <= kMostHeaderBytes) return {};
  return "the headers exceed " + std::to_string(kMostHeaderBytes) + " bytes, the limit for one frame";
}

// It means something to the broker or to Rung: no message may set it.
bool is_reserved(std::string_view name, const ReservedHeaders& reserved) {
  return reserved.contains(name) || is_own_header(name);
}

std::string reserved_text(std::string_view name) {
  return shown(name) + " is reserved for the broker or for Rung: leave it out";
}

// The bytes of `body` (text, or a value that becomes JSON) or `body_base64`; none: neither is given, or an
// error.
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

constexpr std::size_t kMostTasks = 1000;  // per request
constexpr const char* kPath = "/v1/tasks";

// The outcome for one task of a request: one of the `results` of an array.
Json refused(const Problem& why) { return {{"status", why.status}, {"error", why.json(kPath)}}; }

Json with_task(int status, const TaskRow& row) {
  return {{"status", status},
          {"location", kPath + ("/" + row.task.id.str())},
          {"etag", etag(row.task)},
          {"task", to_json(row)}};
}

// Where it will go, as begin_delay() decides. "" = to an exchange.
std::string queue_of(const Task& task, const RuleBook& rules) {
  Target target{task.queue, task.exchange, task.routing_key};
  const TagRules* tag = task.tag.empty() ? nullptr : rules.tag(task.tag);
  if (!target.is_set() && tag != nullptr) target = tag->target;
  return normalised(target).queue;
}

Json same_or_conflict(const KnownTask& known, const std::string& content) {
  if (content_of_origin(known.origin, kSubmitted) == content) return with_task(200, known.row);
  return refused(
      {409,
       "message_id " + known.row.task.message_id +
           " was already submitted with different content; a new task needs a message_id of its own",
       {{"code", "id_reused"}, {"retry_id", known.row.task.id.str()}}});
}

// For /metrics.
const char* word_of(int status) {
  if (status < 300) return status == 201 ? "created" : "same";
  return status == 409 ? "conflict" : status < 500 ? "invalid" : "failed";
}

// The tasks of one request: reads them, hands them over, and builds their answers one by one.
class Batch {
 public:
  Batch(Context& context, const Call& call) : context_(context), call_(call) {}

  void read(const Json& json, const std::string& prefix, const RuleBook& rules) {
    FieldErrors errors;
    ReadTask read = read_task(json, prefix, rules, context_.reserved_headers, call_.who, errors);
    Json item;
    if (!errors.empty()) {
      item = refused(Problem(errors));
    } else if (const std::string queue = queue_of(read.submission.task.task, rules);
               !holds(call_.person.queues, queue)) {
      item = refused(outside_queues(call_.person, queue));
    } else {
      sent_.push_back(items_.size());
      contents_.push_back(std::move(read.content));
      batch_.push_back(std::move(read.submission));
    }
    items_.push_back(std::move(item));
  }

  // Throws if the whole request failed.
  std::vector<Json> submit() {
    if (!batch_.empty()) {
      auto answers = context_.writes.submit(std::move(batch_));
      if (!answers) {
        context_.count("submit", "failed", static_cast<std::int64_t>(sent_.size()));
        throw Problem(answers.error());
      }
      tell(*answers);
    }
    for (const Json& item : items_) context_.count("submit", word_of(item["status"]));
    return std::move(items_);
  }

 private:
  void tell(const std::vector<bridge::Submitted>& answers) {
    std::vector<TaskId> duplicates;
    std::vector<std::size_t> at;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      Json& item = items_[sent_[i]];
      switch (answers[i].answer.how) {
        case Inserted::How::inserted:
          item = with_task(201, context_.named(answers[i].task));
          break;
        case Inserted::How::duplicate:
          duplicates.push_back(answers[i].answer.id);
          at.push_back(i);
          break;
        case Inserted::How::too_large:
          item = refused({413, "the body is too large for the database (max_allowed_packet)"});
          break;
        case Inserted::How::not_held:
        case Inserted::How::id_taken:
          item = refused({503, "nothing was written: try again"});
          break;
      }
    }
    if (duplicates.empty()) return;
    auto rows = context_.reads.result_of([&](MysqlStore& store) { return store.known(duplicates); });
    std::map<TaskId, KnownTask> known;
    for (KnownTask& one : rows.value_or(std::vector<KnownTask>{}))
      known.emplace(one.row.task.id, std::move(one));
    for (std::size_t i = 0; i < at.size(); ++i) {
      Json& item = items_[sent_[at[i]]];
      if (!rows) {  // the other tasks are committed, whatever happens here
        item =
            refused({503,
                     "a task with this message_id exists, and its content could not be compared: try again",
                     {{"retry_id", duplicates[i].str()}}});
      } else if (const auto found = known.find(duplicates[i]); found != known.end()) {
        item = same_or_conflict(found->second, contents_[at[i]]);
      } else {
        item = refused({503, "the task of this message_id is just being deleted: try again"});
      }
    }
  }

  Context& context_;
  const Call& call_;
  std::vector<Submission> batch_;
  std::vector<std::size_t> sent_;  // maps batch_ to items_
  std::vector<std::string> contents_;
  std::vector<Json> items_;
};

Response one_answer(const Json& item) {
  const int status = item["status"];
  if (item.contains("error")) {
    Response response = answer(status, item["error"]);
    response.type = "application/problem+json";
    if (status == 503) response.headers.emplace_back("Retry-After", "1");
    return response;
  }
  Response response = answer(status, item["task"]);
  response.headers.emplace_back("ETag", item["etag"].get<std::string>());
  if (status == 201) response.headers.emplace_back("Location", item["location"].get<std::string>());
  return response;
}

Response many_answers(std::vector<Json> items) {
  int created = 0, same = 0, failed = 0;
  for (const Json& item : items) ++(item["status"] == 201 ? created : item["status"] == 200 ? same : failed);
  const int status = failed > 0 ? 207 : same > 0 ? 200 : 201;
  return answer(status,
                {{"created", created}, {"same", same}, {"failed", failed}, {"results", std::move(items)}});
}

constexpr std::size_t kMostUnset = 256;

// RFC 6839: application/json, and types that end with +json. Of the parameters the character set counts.
bool is_json_type(const std::string& type) {
  static const RE2 json(R"((?is)(application/json|[^;]*\+json) *(;.*)?)", RE2::Latin1);
  static const RE2 charset("(?is)charset=(.*)", RE2::Latin1);
  static const RE2 fits(R"((?is)("?utf-8|us-ascii).*)", RE2::Latin1);
  std::string set = "utf-8";  // unless it says
  RE2::PartialMatch(type, charset, &set);
  return RE2::FullMatch(type, json) && RE2::FullMatch(set, fits);
}
// Some clients give the character set as the encoding. Anything else is compressed or encrypted.
bool is_plain(const std::string& encoding) {
  static const RE2 plain("(?i)(utf-?8|identity|8bit)?");
  return RE2::FullMatch(encoding, plain);
}

// Only looks whether it is JSON, and where not: nothing is built in memory.
struct Syntax : nlohmann::detail::json_sax_acceptor<Json> {
  std::size_t wrong_at = 0;  // the byte, from 1; 0 = nothing is wrong

  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception&) {
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
  return {std::uniform_int_distribution(first, next - 1)(engine)};
}

// {"retry_id", "version", "properties", "headers", "body_base64"}
Json to_json(const Original& original) {
  const Message& message = *original.message;
  return {
      {"retry_id", original.row.task.id.str()},
      {"version", original.row.task.version},
      {"properties", Json::parse(properties_to_json(message.properties), nullptr, false)},
      {"headers", message.headers ? Json::parse(headers_to_json(*message.headers), nullptr, false) : Json()},
      {"body_base64", to_base64(message.body)}};
}

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
    const EpochMs now = context.reads.read([](MysqlStore& store) { return store.now(); });
    auto decisions = need(context.writes.change({edit_event(original, message, by_hand, now)},
                                                static_cast<std::int64_t>(message->body.size())));
    if (decisions.empty()) throw Problem(Error{Error::Kind::transient, "no answer"});
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
  if (decision.reason == kBodyTooLarge) throw Problem(413, decision.reason);
  Decision refused = decision;
  if (!there.why_not.empty()) refused.reason = there.why_not;
  throw refused_change(call, refused, {{"replaced_by", copy.value == 0 ? Json(nullptr) : Json(copy.str())}});
}

bool is_header_text(std::string_view text) {
  return !text.empty() && text.size() <= 255 &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7f; });
}

// The task of the call with its message.
Original original_of(Context& context, const Call& call) {
  const Task task = find_task(context, call).task;
  if (!call.reserve(task.body_bytes * kCopies))
    throw Problem(503, "too many large messages are being read: try again later");
  return context.reads.read([&](MysqlStore& store) { return read_original(store, task.id); });
}

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

Response submit_tasks(Context& context, const Call& call) {
  const Json& json = *call.json;
  const RuleBookPtr rules = context.rules();
  Batch batch(context, call);
  if (!json.is_array()) {
    batch.read(json, "", *rules);
    return one_answer(batch.submit().front());
  }
  if (json.empty() || json.size() > kMostTasks)
    throw Problem(400, "an array must hold 1 to " + std::to_string(kMostTasks) + " tasks");
  for (std::size_t i = 0; i < json.size(); ++i)
    batch.read(json[i], "tasks[" + std::to_string(i) + "].", *rules);
  return many_answers(batch.submit());
}

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
  auto known = store.known({&id, 1});
  if (known.empty()) throw Problem(404, "no task with retry-id " + id.str());
  const auto messages = store.messages({&id, 1});
  if (messages.empty()) throw Problem(404, "the message of task " + id.str() + " has been deleted");
  const StoredMessage& stored = messages.front();
  if (stored.message == nullptr)
    throw Problem(Error{Error::Kind::permanent,
                        "the stored message of task " + id.str() + " is unreadable: " + stored.broken});
  return {std::move(known.front().row), stored.message, std::move(known.front().origin)};
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
  auto known = store.known({&copy, 1});
  const std::string by = "it was replaced by task " + copy.str();
  if (known.empty()) return {{}, by + ", which has been deleted since"};
  if (content_of_origin(known.front().origin, kEdited) != edit_content(edited))
    return {{}, by + " already, with another message: edit that one, if it is parked"};
  return {std::move(known.front().row.task), ""};
}

std::string why_not_json(const Message& message) {
  const std::string type = message.properties.content_type.value_or("");
  if (!is_json_type(type) || !is_plain(message.properties.content_encoding.value_or(""))) return {};
  const std::string& body = message.body.str();
  Syntax syntax;
  if (Json::sax_parse(body, &syntax)) return {};
  return place_in(body, syntax.wrong_at) + ": not JSON, which its content type " + shown(type) + " promises";
}

Response edit_task(Context& context, const Call& call) {
  Fields fields(*call.json);
  const std::uint32_t version = read_version(context, call, fields);
  const std::string reason = fields.text("reason", kErrorBytes).value_or("");
  const Changes changes = read_changes(fields);
  fields.check();
  const Original original = original_of(context, call);
  FieldErrors errors;
  const MessagePtr message = edited_message(original, changes, context.reserved_headers, errors);
  if (message == nullptr) throw Problem(errors);
  try {
    return tell(context, call, carry_out(context, original, message, call.by_hand(version, reason)),
                *message);
  } catch (const Problem& e) {
    if (e.error) context.count("edit", "failed");
    throw;
  }
}

// The whole message, as JSON: what an editor shows.
Response show_message(Context& context, const Call& call) {
  const Original found = original_of(context, call);
  return answer(200, to_json(found), {{"ETag", etag(found.row.task)}});
}

// Never as a page: a body is a stranger's text.
Response show_body(Context& context, const Call& call) {
  const Original found = original_of(context, call);
  const Task& task = found.row.task;
  if (!body_stored(task)) throw Problem(404, not_stored_text(task.last_error));
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
