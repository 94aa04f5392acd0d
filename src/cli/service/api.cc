// How commands ask the API: the one of an instance, over HTTP (JSON, of bounded size), or the one in this
// process, over the database of the config.
#include "src/cli/service/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "plugin/rabbitmq/wire/broker_headers.h"
#include "src/api/api.h"
#include "src/api/base/message.h"
#include "src/core/base/hex.h"
#include "src/core/base/secret_file.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/by_hand.h"
#include "src/net/http_client.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::cli {
namespace {

constexpr std::size_t kMostShown = 4000;  // bytes of a text that the server writes for people
constexpr std::size_t kMostPages = 10'000, kMostRows = 1'000'000;

}  // namespace

const Json& part_of(const Json& json, std::string_view name) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(name);
  return found == json.end() ? kNull : *found;
}

std::string text_of(const Json& json, std::string_view name) {
  const Json& value = part_of(json, name);
  return value.is_string() ? value.get<std::string>() : std::string();
}

double real_of(const Json& json, std::string_view name) {
  const Json& value = part_of(json, name);
  return value.is_number() ? value.get<double>() : 0;
}

std::int64_t number_of(const Json& json, std::string_view name) {
  constexpr double kMost = 1LL << 52;  // sums of some fit, and times of so many ms
  const double value = real_of(json, name);
  return value > -kMost && value < kMost ? static_cast<std::int64_t>(value) : 0;
}

bool flag_of(const Json& json, std::string_view name) {
  const Json& value = part_of(json, name);
  return value.is_boolean() && value.get<bool>();
}

std::optional<EpochMs> time_of(const Json& json, std::string_view name) {
  return from_rfc3339(text_of(json, name));
}

State state_of(const Json& task) { return from_word<State>(text_of(task, "state")).value_or(State::unknown); }

std::string Answer::text(std::string_view member) const {
  return clean_utf8(text_of(json, member), kMostShown);
}

std::string option_for(std::string_view member) {
  // What the option is called where the member is not.
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"filter.", ""},
      {"elsewhere.", "to-"},
      {"set_headers", "set-header"},
      {"body_base64", "body"},
      {"unset_headers", "unset-header"}};
  std::string flag(member);
  for (const auto& [of, begin] : kNames) {
    if (flag.starts_with(of)) flag.replace(0, of.size(), begin);
  }
  // The name of a header stays as it is.
  if (flag.starts_with(api::kHeaderParam)) return "--header " + flag.substr(api::kHeaderParam.size());
  std::ranges::replace(flag, '_', '-');
  return "--" + flag;
}

Error error_of(const Answer& answer, const std::function<std::string(std::string_view)>& name) {
  std::string what;
  for (const Json& one : part_of(answer.json, "errors")) {
    const std::string member = name(text_of(one, "field"));
    what += (what.empty() ? "" : "; ") + (member.empty() ? "" : member + ": ") + text_of(one, "detail");
  }
  return {answer.status == 404 ? Error::Kind::not_found : Error::Kind::permanent,
          what.empty() ? answer.text("detail") : clean_utf8(what, kMostShown)};
}

Result<Json> Api::good(Result<Answer> answer) {
  if (!answer) return tl::unexpected(answer.error());
  if (!answer->good()) return tl::unexpected(error_of(*answer));
  return std::move(answer->json);
}

Result<EpochMs> Api::now() {
  const auto json = get("/v1/now");
  if (!json && json.error().kind == Error::Kind::not_found)
    return tl::unexpected(strange("not of this release: it is older than this program"));
  if (!json) return tl::unexpected(json.error());
  const auto now = time_of(*json, "now");
  if (!now) return tl::unexpected(strange("not as Rung writes it: now.now"));
  return *now;
}

std::string with_query(std::string path, const Parameters& parameters) {
  char before = '?';
  for (const auto& [name, value] : parameters) {
    if (value.empty()) continue;
    path += before + percent_encode(name) + "=" + percent_encode(value);
    before = '&';
  }
  return path;
}

Result<Json> read_page(Api& api, const std::string& path, Parameters parameters, const char* list,
                       std::size_t limit, const std::string& cursor) {
  limit = std::min(limit, kRowsAPage);
  parameters.emplace_back("limit", std::to_string(limit));
  parameters.emplace_back("cursor", cursor);
  auto page = api.get(with_query(path, parameters));
  if (!page) return page;
  const Json& rows = part_of(*page, list);
  if (!rows.is_array()) return tl::unexpected(api.strange(std::string("not as Rung writes it: ") + list));
  if (rows.size() > limit) return tl::unexpected(api.strange("a page that is longer than asked for"));
  const std::string next = text_of(*page, "next");
  if (!next.empty() && next == cursor) return tl::unexpected(api.strange("a page that leads to itself"));
  return page;
}

Result<Json> read_rows(Api& api, const std::string& path, const Parameters& parameters, const char* list,
                       std::size_t most, std::string cursor) {
  Json rows = Json::array();
  for (std::size_t pages = 0; pages < kMostPages; ++pages) {
    auto page = read_page(api, path, parameters, list, most - rows.size(), cursor);
    if (!page) return page;
    for (Json& row : (*page)[list]) rows.push_back(std::move(row));
    cursor = text_of(*page, "next");
    if (cursor.empty() || rows.size() >= most) {
      (*page)[list] = std::move(rows);
      return page;
    }
    if (rows.size() >= kMostRows) return tl::unexpected(api.strange("a list of more than a million rows"));
  }
  return tl::unexpected(api.strange("a list without an end"));
}

namespace {

constexpr Ms kConnecting{std::chrono::seconds{5}}, kAnswering{std::chrono::seconds{60}};
// More than a page of a thousand tasks with the longest errors; a message of 48 MB in base64.
constexpr std::size_t kMostOfAnswer = 64UL << 20;
constexpr std::int64_t kMostOfValues = 2LL << 30;  // bytes of memory for its JSON
constexpr Ms kFirstPause{200};                     // doubled after each try
constexpr Ms kPatience{std::chrono::seconds{5}};   // the pauses between the tries of a request, in all

Result<std::string> read_token(const std::string& file) {
  auto lines = read_secret_lines(file, "token", 8);
  if (!lines) return tl::unexpected(Error{lines.error().kind, file + ": " + lines.error().message});
  const auto first = std::ranges::find_if(*lines, [](const std::string& line) { return !line.empty(); });
  const auto is_printable = [](char c) { return c > ' ' && c <= '~'; };
  if (first == lines->end()) return permanent(file + " has no token");
  if (!std::ranges::all_of(*first, is_printable))
    return permanent(file + ": a token is printable ASCII without spaces");
  return *first;
}

net::HttpClientOptions options_of(const ApiOptions& options, const std::string& token) {
  net::HttpClientOptions o;
  o.base = options.url;
  while (o.base.ends_with('/')) o.base.pop_back();
  if (!token.empty()) o.headers = {{"Authorization", "Bearer " + token}};
  o.ca = options.ca;
  o.connecting = kConnecting;
  o.answering = kAnswering;
  o.max_answer = kMostOfAnswer;
  return o;
}

// A server that stops, or is too busy, says so with these.
bool is_passing(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504 || status == 408;
}

// How long to wait at least before the same request may have another answer; nullopt: for too long, or for
// ever. An address that has never answered is probably wrong.
std::optional<Ms> when_again(const net::HttpReply& reply, bool answered) {
  if (is_passing(reply.status)) return reply.retry_after;
  if (reply.status == 0 && reply.may_pass && answered) return Ms{0};
  return std::nullopt;
}

class ApiClient final : public Api {
 public:
  ApiClient(const ApiOptions& options, const std::string& token)
      : name_("the API " + options.url), token_file_(options.token_file), http_(options_of(options, token)) {}

  Error strange(const std::string& what) const override {
    return {Error::Kind::permanent, name_ + ": the answer is " + what};
  }

  Result<Answer> call(const char* method, const std::string& path, const Json* body, bool safe) override {
    Ms waited{0};
    for (Ms pause = kFirstPause;; pause *= 2) {
      auto answer = ask(method, path, body);
      if (answer || !safe || !try_again_) return answer;
      const Ms wait = std::max(pause, *try_again_);
      if (waited + wait > kPatience) return answer;
      std::this_thread::sleep_for(wait);
      waited += wait;
    }
  }

 private:
  Result<Answer> ask(const char* method, const std::string& path, const Json* body) {
    const net::HttpReply reply = http_.send(method, path, body != nullptr ? api::dump(*body) : "");
    try_again_ = when_again(reply, answered_);
    if (reply.status == 0) return transient(name_ + " " + reply.error);
    answered_ = true;
    const std::string what = fmt::format("{} to {} {}", reply.status, method, path.substr(0, path.find('?')));
    Answer answer{reply.status, {}};
    auto json = api::memory_of_json(reply.body).values <= kMostOfValues
                    ? api::parse_json(reply.body)
                    : Result<Json>(permanent("it has too many values"));
    const bool read = json.has_value();
    if (read) answer.json = *std::move(json);
    const std::string detail = answer.text("detail");
    if (is_passing(reply.status))
      return transient(name_ + " cannot answer now: " + (detail.empty() ? what : detail));
    // Of a proxy, or of another service; its text is a stranger's.
    if (!read || !answer.json.is_object() || (!answer.good() && detail.empty()))
      return tl::unexpected(strange("not Rung's: " + what));
    const bool role = reply.status == 403 && !answer.text("needs_role").empty();
    if (reply.status != 401 && !role) return answer;
    const std::string file = token_file_.empty() ? "no token file is given" : token_file_;
    return tl::unexpected(
        Error{Error::Kind::refused, name_ + ": " + detail + (role ? "" : " (" + file + ")")});
  }

  const std::string name_, token_file_;
  net::HttpClient http_;
  bool answered_ = false;        // since the start: its address is right
  std::optional<Ms> try_again_;  // after the last call: when to repeat it
};

constexpr Ms kConfirmPollInterval{100};
constexpr int kConfirmPolls = 20;

const Fence kNoLease{0, {}, true};

// Repeats a store call after transient errors: a deadlock, a lock wait, a restarting server. Store calls are
// safe to repeat.
constexpr int kMaxTries = 6;
constexpr Ms kFirstBackoff{200};  // doubled after each try: six seconds in total

template <typename Call>
auto retry_transient(const Call& call) -> decltype(call()) {
  Ms pause = kFirstBackoff;
  for (int left = kMaxTries - 1;; --left, pause *= 2) {
    auto result = call();
    if (result || result.error().kind != Error::Kind::transient || left == 0) return result;
    std::this_thread::sleep_for(pause);
  }
}

class StoreWrites {
 public:
  StoreWrites(api::Reads& reads, const Config& config)
      : reads_(reads),
        config_(config),
        random_(std::random_device{}()),
        ids_(static_cast<int>(random_() % 1024)) {}

  Result<std::vector<Decision>> change(const std::vector<Event>& events) {
    auto decisions = apply(events);
    // A task that is being published usually gets its confirm shortly.
    for (int tries = 0; decisions && tries < kConfirmPolls; ++tries) {
      std::vector<Event> later;
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i < events.size(); ++i) {
        if ((*decisions)[i].reason != kBeingPublished) continue;
        later.push_back(events[i]);
        places.push_back(i);
      }
      if (later.empty()) break;
      std::this_thread::sleep_for(kConfirmPollInterval);
      auto decided = apply(later);
      if (!decided) break;  // the others have been changed
      for (std::size_t i = 0; i < places.size(); ++i) (*decisions)[places[i]] = std::move((*decided)[i]);
    }
    return decisions;
  }

  // In one transaction.
  Result<std::vector<bridge::Submitted>> submit(const std::vector<Submission>& batch) {
    const auto now = reads_.result_of([](MysqlStore& store) { return store.now(); });
    if (!now) return tl::unexpected(now.error());
    // One shard per batch: the rows are adjacent in the index.
    const int shard = static_cast<int>(random_() % kShards);
    std::vector<NewTask> tasks;
    for (const Submission& s : batch) {
      tasks.push_back(s.begun(*config_.rules, *now));
      tasks.back().task.id = ids_.next(*now);
      tasks.back().task.shard = shard;
    }
    auto inserted = insert(tasks);
    if (!inserted) return tl::unexpected(inserted.error());
    std::vector<bridge::Submitted> done;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      Inserted& one = (*inserted)[i];
      // Ids are not unique here, because this process has no node number: the store reports a duplicate id.
      while (one.how == Inserted::How::id_taken) {
        tasks[i].task.id = ids_.next(*now);
        auto again = insert({tasks[i]});
        if (!again) return tl::unexpected(again.error());
        one = again->front();
      }
      done.push_back({one, tasks[i].task});
    }
    return done;
  }

 private:
  Result<std::vector<Decision>> apply(const std::vector<Event>& events) {
    return retry_transient([&] {
      return reads_.result_of(
          [&](MysqlStore& store) { return store.apply(events, Fence{}, decider(config_.rules)); });
    });
  }
  Result<std::vector<Inserted>> insert(const std::vector<NewTask>& tasks) {
    return retry_transient(
        [&] { return reads_.result_of([&](MysqlStore& store) { return store.insert(tasks, kNoLease); }); });
  }

  api::Reads& reads_;
  const Config& config_;
  std::mt19937_64 random_;
  IdSource ids_;
};

class Local final : public Api {
 public:
  Local(const Config& config, const Clock& clock, const std::string& who, std::unique_ptr<MysqlStore> first)
      : first_(std::move(first)) {
    api::ContextParts parts;
    parts.store = [this, &config, &clock] {
      if (first_ != nullptr) return std::exchange(first_, nullptr);
      return open_mysql_store(config.store, clock);
    };
    parts.bridging.submit = [this](auto batch, auto done) { bridging_.submit(std::move(batch), done); };
    parts.bridging.change = [this](auto events, auto done) { bridging_.change(std::move(events), done); };
    parts.rules = config.rules;
    parts.reserved_headers = rabbit::reserved_headers();
    parts.index_headers = config.store.index_headers;
    local_ = std::make_unique<api::LocalApi>(std::move(parts), who, clock);
    bridging_ = store_bridging(local_->reads(), config);
  }

  Result<Answer> call(const char* method, const std::string& path, const Json* body, bool /*safe*/) override {
    const api::Response response = local_->call(method, path, body != nullptr ? api::dump(*body) : "");
    if (response.error && response.error->kind != Error::Kind::not_found)
      return tl::unexpected(*response.error);
    return Answer{response.status, Json::parse(response.body, nullptr, false)};
  }

 private:
  std::unique_ptr<MysqlStore> first_;
  std::unique_ptr<api::LocalApi> local_;
  api::Bridging bridging_;
};

}  // namespace

Result<std::unique_ptr<Api>> api_client(const ApiOptions& options) {
  std::string token;
  if (!options.token_file.empty()) {
    auto read = read_token(options.token_file);
    if (!read) return tl::unexpected(read.error());
    token = *std::move(read);
  }
  return std::make_unique<ApiClient>(options, token);
}

std::unique_ptr<Api> local_api(const Config& config, const Clock& clock, const std::string& who,
                               std::unique_ptr<MysqlStore> first) {
  return std::make_unique<Local>(config, clock, who, std::move(first));
}

api::Bridging store_bridging(api::Reads& reads, const Config& config) {
  const auto writes = std::make_shared<StoreWrites>(reads, config);
  return {[writes](auto batch, auto done) { done(writes->submit(batch)); },
          [writes](auto events, auto done) { done(writes->change(events)); }};
}

}  // namespace rung::cli
