// The API in this process, over the database of the config.
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "plugin/rabbitmq/wire/broker_headers.h"
#include "src/api/api.h"
#include "src/cli/service/api.h"
#include "src/core/machine/by_hand.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::cli {
namespace {

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
