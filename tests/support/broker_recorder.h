// A BrokerSink that records its calls, and waits for them.
// Thread: any.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "plugin/broker.h"

namespace rung::test {

class BrokerRecorder final : public BrokerSink {
 public:
  static constexpr Ms kWithin{120'000};

  void on_deliveries(std::vector<Delivery> deliveries) override {
    add([&] {
      for (const Delivery& d : deliveries) one_session_ &= d.tag.session == deliveries[0].tag.session;
      for (Delivery& d : deliveries) deliveries_.push_back(std::move(d));
    });
  }
  void on_published(std::vector<PublishResult> results) override {
    add([&] {
      for (PublishResult& r : results) {
        results_[r.token].push_back(r);
        ++count_;
      }
    });
  }
  void on_status(const BrokerStatus& status) override {
    add([&] { statuses_.push_back(status); });
  }

  void on_topology(const TopologyReport& report) override {
    add([&] { topology_.push_back(report); });
  }
  void on_error_queues(const ErrorQueueReport& report) override {
    add([&] { error_queues_ = report; });
  }

  // Waits for `count` deliveries; returns those that have arrived, and clears the record of them.
  std::vector<Delivery> deliveries(std::size_t count, Ms within = kWithin) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, within, [&] { return deliveries_.size() >= count; });
    return std::exchange(deliveries_, {});
  }
  // Waits until `count` results have arrived in total; false if they do not.
  bool published(std::size_t count, Ms within = kWithin) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, within, [&] { return count_ >= count; });
  }
  // The only result of a token; `none` if it has none or several.
  std::optional<PublishResult> result(std::uint64_t token, Ms within = kWithin) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, within, [&] { return results_.contains(token); });
    const auto it = results_.find(token);
    if (it == results_.end() || it->second.size() != 1) return std::nullopt;
    return it->second[0];
  }
  // The number of results of each kind; -1 counts tokens with more than one result.
  std::map<int, int> ways() const {
    std::lock_guard lock(mutex_);
    std::map<int, int> out;
    for (const auto& [token, results] : results_)
      ++out[results.size() == 1 ? static_cast<int>(results[0].how) : -1];
    return out;
  }
  std::size_t result_count() const {
    std::lock_guard lock(mutex_);
    return count_;
  }
  template <typename Is>
  bool status(Is&& is, Ms within = kWithin) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, within, [&] { return !statuses_.empty() && is(statuses_.back()); });
  }
  bool up(Ms within = kWithin) {
    return status([](const BrokerStatus& s) { return s.consuming && s.publishing; }, within);
  }
  // Waits for a topology report for which `is` returns true.
  template <typename Is>
  bool topology(Is&& is, Ms within = kWithin) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, within, [&] { return std::ranges::any_of(topology_, is); });
  }
  // Waits until the last report of the error queues is one for which `is` returns true.
  template <typename Is>
  bool error_queues(Is&& is, Ms within = kWithin) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, within, [&] { return is(error_queues_); });
  }
  ErrorQueueReport error_queues() const {
    std::lock_guard lock(mutex_);
    return error_queues_;
  }
  // Whether each batch of deliveries so far was of one session.
  bool one_session_each() const {
    std::lock_guard lock(mutex_);
    return one_session_;
  }
  // How often `name` was repaired so far.
  std::size_t repairs(const std::string& name) const {
    std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const TopologyReport& report : topology_)
      count += static_cast<std::size_t>(std::ranges::count(report.repaired, name));
    return count;
  }
  void forget_topology() {
    std::lock_guard lock(mutex_);
    topology_.clear();
  }
  std::vector<BrokerStatus> statuses() const {
    std::lock_guard lock(mutex_);
    return statuses_;
  }

 private:
  template <typename Change>
  void add(Change&& change) {
    std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Delivery> deliveries_;
  std::map<std::uint64_t, std::vector<PublishResult>> results_;
  std::size_t count_ = 0;
  std::vector<BrokerStatus> statuses_;
  std::vector<TopologyReport> topology_;
  ErrorQueueReport error_queues_;
  bool one_session_ = true;
};

}  // namespace rung::test
