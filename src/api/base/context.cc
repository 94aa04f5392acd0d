#include "src/api/base/context.h"

#include <tuple>

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

constexpr std::int64_t kMostWaiting = 64 << 20;  // bytes handed over and not yet answered
constexpr std::int64_t kBytesOfEvent = 1024;

template <typename T, typename Ask>
Result<T> await_reply(const std::shared_ptr<std::atomic<std::int64_t>>& waiting, std::int64_t bytes,
                      Ms reply_timeout, const Ask& ask) {
  if (waiting->fetch_add(bytes) + bytes > kMostWaiting && bytes < kMostWaiting) {
    waiting->fetch_sub(bytes);
    return transient(
        "too much data is already waiting for the database: this request was not accepted; try again later");
  }
  auto result = answer_within<Result<T>>(reply_timeout, [&](auto done) {
    ask([done, waiting, bytes](Result<T> answer) {
      waiting->fetch_sub(bytes);
      done(std::move(answer));
    });
  });
  if (result) return *std::move(result);
  return transient(
      "the database did not answer in time: the request may still take effect; query the task before you "
      "try again (repeating a submission with the same message_id creates no second task)");
}

// The text in place of the pattern's {id}; none if the path doesn't match.
std::optional<std::string> fits(std::string_view pattern, std::string_view path) {
  if (pattern.ends_with('*') && path.starts_with(pattern.substr(0, pattern.size() - 1))) return "";
  const std::size_t at = pattern.find('{');
  if (at == std::string_view::npos) return pattern == path ? std::optional<std::string>("") : std::nullopt;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(pattern.find('}') + 1);
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after))
    return std::nullopt;
  const std::string_view id = path.substr(at, path.size() - before.size() - after.size());
  return id.find('/') == std::string_view::npos ? std::optional<std::string>(id) : std::nullopt;
}

Json body_of(const Request& request, Takes takes) {
  if (takes == Takes::nothing) return {};
  if (takes == Takes::maybe && request.body.empty()) return Json::object();
  auto json = parse_json(request.body);
  if (!json) throw Problem(400, json.error().message);
  if (takes != Takes::json && !json->is_object())
    throw Problem(
        400, takes == Takes::maybe ? "the body must be an object, or empty" : "the body must be an object");
  return *std::move(json);
}

// Throws a 403 if the person may not act on the queue or the bulk that the call concerns.
void check_scope(Context& context, Scope scope, const Call& call) {
  // A redriver is limited to bulks that redrive, too.
  const bool any_bulk = scope != Scope::bulk || call.person.role >= Role::acts;
  if (call.person.queues == nullptr && any_bulk) return;
  switch (scope) {
    case Scope::none:
    case Scope::changed:
    case Scope::body:
      break;
    case Scope::queue:
      return refuse_queue(call.person, call.id);
    case Scope::task:
      return refuse_queue(call.person, queue_of_task(context, call));
    case Scope::cause:
      return refuse_queue(call.person, queue_of_cause(context, call));
    case Scope::bulk:
      return refuse_bulk(context, call);
  }
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

std::unique_ptr<MysqlStore> Reads::take() {
  std::unique_lock lock(mutex_);
  if (!free_.wait_for(lock, call_timeout_ - query_timeout(call_timeout_), [this] { return out_ < most_; }))
    throw Problem(Error{Error::Kind::transient, "the database does not keep up with the requests"});
  ++out_;
  if (idle_.empty()) return nullptr;
  auto store = std::move(idle_.back());
  idle_.pop_back();
  return store;
}

std::unique_ptr<MysqlStore> Reads::open() const {
  try {
    return factory_();
  } catch (StoreError& e) {
    if (e.error.kind == Error::Kind::permanent) e.error.kind = Error::Kind::refused;  // not the caller's
    throw;
  }
}

void Reads::give_back(std::unique_ptr<MysqlStore> store) {
  const std::lock_guard lock(mutex_);
  --out_;
  if (store != nullptr) idle_.push_back(std::move(store));
  free_.notify_one();
}

void Reads::forget_idle() {
  std::vector<std::unique_ptr<MysqlStore>> gone;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  gone.swap(idle_);
}

Result<std::vector<bridge::Submitted>> Writes::submit(std::vector<Submission> batch) {
  std::int64_t bytes = 0;
  for (const Submission& s : batch) bytes += s.task.task.body_bytes + kBytesOfEvent;
  return await_reply<std::vector<bridge::Submitted>>(waiting_, bytes, reply_timeout_, [&](auto done) {
    bridging_.submit(std::move(batch), std::move(done));
  });
}

Result<std::vector<Decision>> Writes::change(std::vector<Event> events, std::int64_t more) {
  const auto bytes = static_cast<std::int64_t>(events.size()) * kBytesOfEvent + more;
  return await_reply<std::vector<Decision>>(waiting_, bytes, reply_timeout_, [&](auto done) {
    bridging_.change(std::move(events), std::move(done));
  });
}

TaskCount TaskCounter::count(MysqlStore& store, EpochMs now, Ms most) {
  TaskCount out{store.open_by_queue(), {}};
  const BootMs until = clock_.boot() + most;
  std::unique_lock lock(mutex_);
  if (free_.wait_for(lock, most, [&] { return !counting_; })) {
    counting_ = true;
    lock.unlock();
    std::exception_ptr failed;
    try {
      count_ended(store, now, until);
    } catch (...) {
      failed = std::current_exception();
    }
    lock.lock();
    counting_ = false;
    free_.notify_all();
    if (failed) std::rethrow_exception(failed);
  }
  out.ended_at = ended_at_;
  for (const auto& [which, tasks] : ended_at_ ? whole_ : so_far_)
    out.queues.push_back({which.first, which.second, tasks, {}, 0});
  std::ranges::sort(out.queues, {}, [](const QueueStat& stat) { return std::tie(stat.queue, stat.state); });
  return out;
}

void TaskCounter::count_ended(MysqlStore& store, EpochMs now, BootMs until) {
  bool from_here = !begun_at_;  // otherwise an earlier call began this count: it lacks what has ended since
  do {
    if (!begun_at_) begun_at_ = now;
    if (count_piece(store) && std::exchange(from_here, true)) break;
  } while (clock_.boot() < until);
}

bool TaskCounter::count_piece(MysqlStore& store) {
  auto piece = store.count_ended(place_, piece_);
  const std::lock_guard lock(mutex_);
  Ended sum = so_far_;  // a piece counts as a whole, or not at all
  for (const QueueStat& stat : piece.queues) sum[{stat.queue, stat.state}] += stat.tasks;
  so_far_.swap(sum);
  const bool is_last = !piece.next;
  place_ = is_last ? EndedPlace{} : *std::move(piece.next);
  if (is_last) {
    whole_ = std::exchange(so_far_, {});
    ended_at_ = std::exchange(begun_at_, std::nullopt);
  }
  return is_last;
}

std::optional<Result<std::string>> BriefCache::get(std::function<Result<std::string>()> read, Ms most) {
  std::unique_lock lock(mutex_);
  if (!reads_ && clock_.boot() >= until_) {
    if (thread_.joinable()) thread_.join();  // it has said its last
    reads_ = true;
    thread_ = std::thread([this, read = std::move(read)] {
      const BootMs began = clock_.boot();
      Result<std::string> answer;
      try {
        answer = read();
      } catch (const std::exception& e) {
        answer = permanent(e.what());
      }
      const std::lock_guard done(mutex_);
      const BootMs ended = clock_.boot();
      if (answer) until_ = ended + std::max(kept_, (ended - began) * share_);
      last_ = std::move(answer);
      reads_ = false;
      ended_.notify_all();
    });
  }
  ended_.wait_for(lock, most, [this] { return !reads_; });
  return last_;
}

Router::Match Router::match(const Request& request) const {
  Match match;
  for (const Route& route : routes_) {
    const auto id = fits(route.pattern, request.path);
    if (!id) continue;
    if (route.method == request.method) return {&route, decode_segment(*id, request), ""};
    match.allow.append(match.allow.empty() ? "" : ", ").append(route.method);
    if (route.method == "GET") match.allow.append(", HEAD");
  }
  return match;
}

Response Router::answer(const Route& route, Call& call) const {
  const Request& request = call.request;
  FieldErrors errors;
  check_params(request.query, route.params, errors);
  try {
    // Probes and scrapers may add parameters of their own, and browsers on their way back from a login.
    if (!errors.empty() && !route.id.empty() && request.path.starts_with("/v1/")) throw Problem(errors);
    call.action = route.action;
    call.query = Query(request.query);
    const Json json = body_of(request, route.takes);
    call.json = &json;
    check_scope(context_, route.scope, call);
    return route.handle(context_, call);
  } catch (const Problem& why_not) {
    return problem(why_not, request.path);
  }
}

Problem no_such_route(const Router::Match& match) {
  if (match.allow.empty()) return {404, "no such path: see /openapi.json"};
  return {405, "method not allowed; allowed: " + match.allow, {}, {{"Allow", match.allow}}};
}

std::optional<Vitals> Context::vitals() const {
  return ask_vitals ? answer_within<Vitals>(std::chrono::seconds{2}, ask_vitals) : std::nullopt;
}

TaskRow Context::named(const Task& task) {
  if (task.node == 0) return {task, ""};
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = nodes_.find(task.node); known != nodes_.end()) return {task, known->second};
  }
  const auto nodes = reads.result_of([](MysqlStore& database) { return database.nodes(); });
  const std::lock_guard lock(mutex_);
  if (nodes) {
    for (const NodeRow& node : *nodes) nodes_[node.id] = node.name;
  }
  const auto known = nodes_.find(task.node);  // if missing, the next call asks again
  return {task, known != nodes_.end() ? known->second : ""};
}

void no_such_task(const Call& call) {
  throw Problem(404, "no task has the id " + shown(call.id) + "; ids are the digits of retry_id");
}

TaskId task_id_of(const Call& call) {
  const auto id = TaskId::parse(call.id);
  if (!id) no_such_task(call);
  return *id;
}

TaskRow find_task(Context& context, const Call& call) {
  const TaskId id = task_id_of(call);
  auto row = context.reads.read([&](MysqlStore& store) { return store.find(id); });
  if (!row) no_such_task(call);
  return *std::move(row);
}

std::string queue_of_task(Context& context, const Call& call) { return find_task(context, call).task.queue; }

}  // namespace rung::api
