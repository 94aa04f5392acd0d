// POST /v1/tasks, GET /v1/tasks, GET /v1/tasks/{id}, and its /origin, /history and /audit.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "src/api/messages/submission.h"
#include "src/api/queues/gates.h"
#include "src/api/tasks/filter.h"
#include "src/api/tasks/pages.h"
#include "src/api/tasks/views.h"
#include "src/core/machine/by_hand.h"
#include "src/core/task/task.h"
#include "src/http/access/access.h"
#include "src/http/handlers/context.h"

namespace rung::http {
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
  return {status, api::to_json(row), api::etag(row.task), row.task.id.str()};
}

// Where it will go, as begin_delay() decides. "" = to an exchange.
std::string queue_of(const Task& task, const RuleBook& rules) {
  Target target{task.queue, task.exchange, task.routing_key};
  const TagRules* tag = task.tag.empty() ? nullptr : rules.tag(task.tag);
  if (!target.is_set() && tag != nullptr) target = tag->target;
  return normalised(target).queue;
}

// Rows that already existed, and the content that their submitters sent.
struct Known {
  std::optional<TaskRow> row;
  std::string content;
};
Result<std::map<TaskId, Known>> look_up(Reads& reads, const std::vector<TaskId>& ids) {
  auto rows = reads.run([&](MysqlStore& store) { return store.known(ids); });
  if (!rows) return tl::unexpected(rows.error());
  std::map<TaskId, Known> known;
  for (KnownTask& one : *rows) {
    const TaskId id = one.row.task.id;
    known[id] = {std::move(one.row), content_of_origin(one.origin, MadeBy::submission)};
  }
  return known;
}

Item same_or_conflict(const Known& known, const std::string& content) {
  if (!known.row) return refused(503, "the task of this message_id is just being deleted: try again");
  if (known.content == content) return with_task(200, *known.row);
  return refused(
      409,
      "message_id " + known.row->task.message_id +
          " was already submitted with different content; a new task needs a message_id of its own",
      {{"code", "id_reused"}, {"retry_id", known.row->task.id.str()}});
}

Metrics::Submitted metric_of(int status) {
  switch (status) {
    case 201:
      return Metrics::Submitted::created;
    case 200:
      return Metrics::Submitted::same;
    case 409:
      return Metrics::Submitted::conflict;
    case 400:
    case 403:
    case 413:
      return Metrics::Submitted::invalid;
    default:
      return Metrics::Submitted::failed;
  }
}

// The tasks of one request: reads them, hands them over, and builds their answers one by one.
class Batch {
 public:
  Batch(Context& context, const Call& call) : context_(context), call_(call) {}

  void read(const Json& json, const std::string& prefix, const RuleBook& rules) {
    FieldErrors errors;
    api::ReadTask read = api::read_task(json, prefix, rules, context_.reserved, call_.who, errors);
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

  // Error: the whole request failed.
  Result<std::vector<Item>> submit() {
    if (!batch_.empty()) {
      auto answers = context_.writes.submit(std::move(batch_));
      if (!answers) {
        context_.metrics.submitted(Metrics::Submitted::failed, static_cast<std::int64_t>(sent_.size()));
        return tl::unexpected(answers.error());
      }
      tell(*answers);
    }
    for (const Item& item : items_) context_.metrics.submitted(metric_of(item.status));
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
    auto known = look_up(context_.reads, duplicates);
    for (std::size_t i = 0; i < at.size(); ++i) {
      // The other tasks are committed, whatever happens here.
      items_[sent_[at[i]]] = known ? same_or_conflict((*known)[duplicates[i]], contents_[at[i]])
                                   : refused(503,
                                             "a task with this message_id exists, and its content "
                                             "could not be compared: try again",
                                             {{"retry_id", duplicates[i].str()}});
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
    auto items = batch.submit();
    return items ? one_answer(items->front()) : problem(items.error(), kPath);
  }
  if (json.empty() || json.size() > api::kMostTasks)
    return problem(400, "an array must hold 1 to " + std::to_string(api::kMostTasks) + " tasks", kPath);
  for (std::size_t i = 0; i < json.size(); ++i)
    batch.read(json[i], "tasks[" + std::to_string(i) + "].", *rules);
  auto items = batch.submit();
  return items ? many_answers(*std::move(items)) : problem(items.error(), kPath);
}

namespace {

// The conditions, the order and the page.
Filter task_filter_of(const Query& query, FieldErrors& errors) {
  Pairs conditions = query.all();
  std::erase_if(conditions, [](const auto& one) {
    return std::ranges::none_of(
        api::kConditions, [&](const api::Condition& known) { return api::is_named(known.param, one.first); });
  });
  Filter filter = api::read_filter(conditions, "", errors);
  const api::Page page = query.page();
  filter.limit = page.limit;
  filter.order = order_from(query.text("sort")).value_or(Filter::Order::newest);
  if (!page.cursor.empty() && !api::read_cursor(page.cursor, filter))
    errors.push_back({"cursor", api::kWrongCursor});
  return filter;
}

std::optional<CountBy> count_by_of(const Query& query, FieldErrors& errors) {
  if (!query.has("by")) return std::nullopt;
  const auto by = CountBy::parse(query.text("by"));
  if (!by) errors.push_back({"by", "must be " + std::string(kCountByWords)});
  if (!query.flag("count")) errors.push_back({"by", "only valid with count=true"});
  return by;
}

}  // namespace

Response list_tasks(Context& context, const Call& call) {
  FieldErrors errors;
  Filter filter = task_filter_of(call.query, errors);
  const auto by = count_by_of(call.query, errors);
  if (!errors.empty()) return problem(errors, call.request.path);
  if (call.query.flag("count")) {
    auto counts = context.reads.run(
        [&](MysqlStore& store) { return api::count_tasks(store, filter, by, context.most_counted); });
    return counts ? answer(200, api::to_json(*counts, by, context.most_counted))
                  : filter_problem(filter, counts.error(), call.request.path, by.has_value());
  }
  const int limit = filter.limit++;
  auto rows = context.reads.run([&](MysqlStore& store) { return store.list(filter); });
  if (!rows) return filter_problem(filter, rows.error(), call.request.path);
  return answer(200, api::tasks_page(*rows, limit, filter.order));
}

Response show_task(Context& context, const Call& call) {
  const auto id = TaskId::parse(call.id);
  if (!id) return no_such_task(call);
  const auto found = context.reads.run([&](MysqlStore& store) -> Result<std::optional<api::TaskDetails>> {
    auto row = store.find(*id);
    if (!row) return tl::unexpected(row.error());
    if (!*row) return std::nullopt;
    auto history = store.history(*id);
    if (!history) return tl::unexpected(history.error());
    auto gate = api::holding_gate(store, (*row)->task);
    if (!gate) return tl::unexpected(gate.error());
    const Silence silence = silence_of((*row)->task, *context.rules());
    auto children = api::children_of(store, (*row)->task);
    if (!children) return tl::unexpected(children.error());
    return api::TaskDetails{**std::move(row), *std::move(history), *std::move(gate), silence,
                            *std::move(children)};
  });
  if (!found) return problem(found.error(), call.request.path);
  if (!*found) return no_such_task(call);
  Response response = answer(200, api::to_json(**found));
  response.headers.emplace_back("ETag", api::etag((*found)->row.task));
  return response;
}

// What the message arrived with, apart from what is sent again. Whoever may not see the message does not see
// what it had before.
Response show_origin(Context& context, const Call& call) {
  const auto id = TaskId::parse(call.id);
  if (!id) return no_such_task(call);
  const auto known = context.reads.run([&](MysqlStore& store) { return store.known({&*id, 1}); });
  if (!known) return problem(known.error(), call.request.path);
  if (known->empty()) return no_such_task(call);
  const auto& [row, origin] = known->front();
  const bool whole = may(call.person, Action::body) && holds(call.person.queues, row.task.queue);
  Json json = Json::parse(whole ? origin : without_content(origin), nullptr, false);
  if (json.is_discarded()) json = Json();
  return answer(200, {{"retry_id", id->str()}, {"origin", std::move(json)}});
}

namespace {

// `read(store, page)`: the page; none if there is no such task.
template <typename Read>
Response show_list(Context& context, const Call& call, const Read& read) {
  const auto id = TaskId::parse(call.id);
  if (!id) return no_such_task(call);
  const auto found =
      context.reads.run([&](MysqlStore& store) { return read(store, *id, call.query.page()); });
  if (!found) return problem(found.error(), call.request.path);
  return *found ? answer(200, **found) : no_such_task(call);
}

}  // namespace

Response show_history(Context& context, const Call& call) {
  return show_list(context, call,
                   [](MysqlStore& store, TaskId id, const api::Page& page) -> Result<std::optional<Json>> {
                     auto row = store.find(id);
                     if (!row) return tl::unexpected(row.error());
                     if (!*row) return std::nullopt;
                     auto history = store.history(id);
                     if (!history) return tl::unexpected(history.error());
                     return api::history_page(*history, page);
                   });
}

// The audit is shown even if the task itself has been deleted.
Response show_audit(Context& context, const Call& call) {
  return show_list(context, call,
                   [](MysqlStore& store, TaskId id, const api::Page& page) -> Result<std::optional<Json>> {
                     auto row = store.find(id);
                     if (!row) return tl::unexpected(row.error());
                     auto rows = store.audit(id);
                     if (!rows) return tl::unexpected(rows.error());
                     if (!*row && rows->empty()) return std::nullopt;
                     return api::audit_page(*rows, page);
                   });
}

}  // namespace rung::http
