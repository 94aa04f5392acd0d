// POST /v1/tasks/{id}/edit, and GET /v1/tasks/{id}/body and /message: what needs the right to see bodies.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "src/api/messages/edit.h"
#include "src/api/tasks/views.h"
#include "src/http/access/access.h"
#include "src/http/handlers/context.h"

namespace rung::http {
namespace {

constexpr int kMostIds = 4;  // ids tried for the new task
// Of a body that is read and answered: in the buffers of the connection, here, in base64, as the text of the
// response.
constexpr std::int64_t kCopies = 5;

struct EditWish {
  std::uint32_t version = 0;
  std::string reason;
  api::Changes changes;
};

EditWish read_edit_wish(Context& context, const Call& call, FieldErrors& errors) {
  EditWish wish;
  api::Fields fields(*call.json, "", errors);
  const auto version = fields.integer("version", 1, UINT32_MAX);
  const auto if_match = version_of(context, call);
  if (!if_match) {
    fields.wrong("version", if_match.error().message);
  } else if (version && *if_match && *version != **if_match) {
    fields.wrong("version", "If-Match names another version");
  } else if (!version && !*if_match && !fields.has("version")) {
    fields.wrong("version", "missing: the version of the task as you saw it (or If-Match with its ETag)");
  } else {
    wish.version = version ? static_cast<std::uint32_t>(*version) : if_match->value_or(0);
  }
  wish.reason = fields.text("reason", kErrorBytes).value_or("");
  wish.changes = api::read_changes(fields);
  fields.finish();
  return wish;
}

Metrics::Changed metric_of(api::Edited::How how) {
  switch (how) {
    case api::Edited::How::created:
      return Metrics::Changed::applied;
    case api::Edited::How::same:
      return Metrics::Changed::unchanged;
    default:
      return Metrics::Changed::refused;
  }
}

Response tell(Context& context, const Call& call, const api::Edited& edited) {
  const std::string& path = call.request.path;
  const Task& task = edited.task;
  const std::string replaced_by = task.replaced_by.str();
  const Json more = {{"state", to_word(task.state)},
                     {"version", task.version},
                     {"replaced_by", task.replaced_by.value == 0 ? Json(nullptr) : Json(replaced_by)}};
  switch (edited.how) {
    case api::Edited::How::created:
    case api::Edited::How::same:
      break;
    case api::Edited::How::no_such_task:
      return no_such_task(call);
    case api::Edited::How::too_large:
      return problem(413, edited.reason, path);
    case api::Edited::How::changed_since:
      return problem(
          412, "the task has changed since you read it: its version is now " + std::to_string(task.version),
          path, more);
    case api::Edited::How::refused:
      if (edited.reason == kNotTheirQueue)
        return problem(403, outside_queues(call.person, task.queue), path, outside_members(task.queue));
      return problem(409, edited.reason, path, more);
  }
  Response response = answer(edited.how == api::Edited::How::created ? 201 : 200, context.changed(task));
  response.headers.emplace_back("ETag", api::etag(task));
  if (response.status == 201) response.headers.emplace_back("Location", "/v1/tasks/" + task.id.str());
  return response;
}

Result<api::Edited> carry_out(Context& context, const Call& call, const EditWish& wish,
                              const api::Original& original, const MessagePtr& message) {
  Result<std::vector<Decision>> decisions = std::vector<Decision>{};
  for (int tries = 0; tries < kMostIds; ++tries) {
    const auto now = context.reads.run([](MysqlStore& store) { return store.now(); });
    if (!now) return tl::unexpected(now.error());
    decisions = context.writes.change(
        {api::edit_event(original, message, call.by_hand(wish.version, wish.reason), *now)},
        static_cast<std::int64_t>(message->body.size()));
    if (!decisions) return tl::unexpected(decisions.error());
    if (decisions->empty()) return transient("no answer");
    if (decisions->front().reason != kIdTaken) break;
  }
  return context.reads.run(
      [&](MysqlStore& store) { return api::outcome_of_edit(store, decisions->front(), *message); });
}

bool is_header_text(std::string_view text) {
  return !text.empty() && text.size() <= 255 &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7f; });
}

// The task of the call with its message.
tl::expected<api::Original, Response> original_of(Context& context, const Call& call) {
  const auto id = TaskId::parse(call.id);
  if (!id) return tl::unexpected(no_such_task(call));
  const auto row = context.reads.run([&](MysqlStore& store) { return store.find(*id); });
  if (!row) return tl::unexpected(problem(row.error(), call.request.path));
  if (!*row) return tl::unexpected(no_such_task(call));
  if (!call.reserve((*row)->task.body_bytes * kCopies))
    return tl::unexpected(
        problem(Error{Error::Kind::transient, "too many large messages are being read: try again later"},
                call.request.path));
  auto original = context.reads.run([&](MysqlStore& store) { return api::read_original(store, *id); });
  if (!original) return tl::unexpected(problem(original.error(), call.request.path));
  return *std::move(original);
}

}  // namespace

Response edit_task(Context& context, const Call& call) {
  const std::string& path = call.request.path;
  FieldErrors errors;
  const EditWish wish = read_edit_wish(context, call, errors);
  if (!errors.empty()) return problem(errors, path);
  const auto original = original_of(context, call);
  if (!original) return original.error();
  const MessagePtr message = api::edited_message(*original, wish.changes, context.reserved, errors);
  if (message == nullptr) return problem(errors, path);
  const auto edited = carry_out(context, call, wish, *original, message);
  context.metrics.changed("edit", edited ? metric_of(edited->how) : Metrics::Changed::failed);
  return edited ? tell(context, call, *edited) : problem(edited.error(), path);
}

// The whole message, as JSON: what an editor shows.
Response show_message(Context& context, const Call& call) {
  const auto found = original_of(context, call);
  if (!found) return found.error();
  Response response = answer(200, api::to_json(*found));
  response.headers.emplace_back("ETag", api::etag(found->row.task));
  return response;
}

// Never as a page: a body is a stranger's text.
Response show_body(Context& context, const Call& call) {
  const auto found = original_of(context, call);
  if (!found) return found.error();
  if (!body_stored(found->row.task)) return problem(404, not_stored_text(found->row.task), call.request.path);
  const Message& message = *found->message;
  Response response;
  response.type = "application/octet-stream";
  response.body = message.body;
  response.headers.emplace_back("ETag", api::etag(found->row.task));
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Content-Disposition",
                                "attachment; filename=\"" + found->row.task.id.str() + ".body\"");
  const std::string type = message.properties.content_type.value_or("");
  if (is_header_text(type)) response.headers.emplace_back("Message-Content-Type", type);
  return response;
}

}  // namespace rung::http
