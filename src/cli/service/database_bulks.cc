// Bulks in the database: this process carries them out.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/tasks/views.h"
#include "src/bridge/changes/bulk.h"
#include "src/cli/service/retry.h"
#include "src/cli/service/service.h"

namespace rung::cli {
namespace {

constexpr Ms kRunnerTtl{10'000};  // after this a sidecar can take over
constexpr Ms kPollInterval{300};  // for a bulk that is not due, or that another process runs

std::string runner_name() {
  std::array<char, 200> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"?"};
  return fmt::format("{}:{} (cli)", host.data(), getpid());
}

// Its ids and its progress are in the database, so a sidecar can complete it if this process dies.
class OwnRun final : public BulkRun {
 public:
  OwnRun(const DatabaseParts& parts, Bulk bulk)
      : BulkRun(std::move(bulk)), parts_(parts), runner_(runner_name()) {}

  Result<Ms> step() override {
    auto taken = retry_transient([&] { return parts_.store.take_bulk(runner_, kRunnerTtl, bulk_.id); });
    if (!taken) return tl::unexpected(taken.error());
    if (!*taken) {
      if (auto seen = reload(); !seen) return tl::unexpected(seen.error());
      return std::clamp(next_ - parts_.clock.boot(), Ms{20}, kPollInterval);
    }
    see(**taken);
    if (auto moved = move_on(); !moved) return tl::unexpected(moved.error());
    return Ms{0};
  }

 private:
  Result<void> reload() {
    auto now = retry_transient([&] { return parts_.store.bulk(bulk_.id); });
    if (!now) return tl::unexpected(now.error());
    if (!*now) return not_found("no such bulk: " + std::to_string(bulk_.id));
    see(**now);
    return {};
  }

  Result<void> move_on() {
    const TaskId from = bulk_.last;
    auto progress = retry_transient(
        [&] { return bridge::perform_step(parts_.store, bulk_, runner_, Fence{}, parts_.config.rules); });
    if (!progress) {
      // The bulk was paused or ended, or a sidecar has taken it: nothing was written. Or an earlier try was
      // committed but its response lost: then the bulk has advanced.
      const Error error = progress.error();
      if (auto seen = reload(); !seen) return seen;
      const bool ours = bulk_.state == BulkState::running && bulk_.runner == runner_;
      if (ours && bulk_.last == from) return tl::unexpected(error);
      return {};
    }
    note(progress->verdict);
    if (progress->verdict.go == BulkVerdict::Go::wait) next_ = parts_.clock.boot() + bridge::kLookAtOutcomes;
    if (progress->decisions.empty()) return reload();  // it waits or has ended, which its row says
    const auto many = static_cast<double>(progress->decisions.size());
    bulk_.done += std::ssize(progress->decisions);
    // The table decides when the next step is due; this only sets how long to wait before asking.
    const double rate = bridge::rate_of(bulk_);
    const std::chrono::duration<double> pause(rate > 0 ? many / rate : 0);
    next_ = parts_.clock.boot() + std::chrono::ceil<Ms>(pause);
    return {};
  }

  // What a careful redrive waits for.
  void note(const BulkVerdict& verdict) {
    using Go = BulkVerdict::Go;
    const std::string text = verdict.go == Go::passed ? std::string(bridge::kCanaryPassed) : verdict.why;
    if (verdict.go != Go::stop && !text.empty()) news_ = text;
  }

  const DatabaseParts parts_;
  const std::string runner_;
  BootMs next_;
};

class DatabaseBulks final : public BulkService {
 public:
  explicit DatabaseBulks(const DatabaseParts& parts) : parts_(parts) {}

  std::string left_running(std::int64_t id) const override {
    return fmt::format("bulk {} was interrupted: a sidecar will resume it, or run `rung bulk resume {}`", id,
                       id);
  }
  std::string refused_target(const Target& target) const override {
    return rung::refused_target(target, parts_.config.rules->targets());
  }
  Result<Json> dry_run(const NewBulk& asked, const std::optional<CountBy>& by) override {
    return api::dry_run(parts_.store, asked, by, *parts_.config.rules);
  }
  Result<Json> redrive_notes(const NewBulk& asked) override {
    return api::redrive_notes(parts_.store, asked, *parts_.config.rules);
  }
  Result<Bulk> create(const NewBulk& asked) override {
    NewBulk whole = asked;
    whole.who = parts_.who;
    return parts_.store.create_bulk(whole);
  }
  Result<std::optional<Bulk>> find(std::int64_t id) override { return parts_.store.bulk(id); }
  Result<std::vector<Bulk>> list(int limit, std::optional<std::int64_t> below) override {
    return parts_.store.bulks(limit, below);
  }
  Result<std::optional<Bulk>> control(const BulkControl& control) override {
    BulkControl whole = control;
    whole.who = parts_.who;
    return api::control_bulk(parts_.store, whole, parts_.config.rules);
  }
  Result<std::optional<api::Outcomes>> outcomes(const Bulk& bulk) override {
    return api::outcomes_of(parts_.store, bulk);
  }
  std::unique_ptr<BulkRun> run(Bulk bulk) override {
    return std::make_unique<OwnRun>(parts_, std::move(bulk));
  }

 private:
  const DatabaseParts parts_;
};

}  // namespace

std::unique_ptr<BulkService> database_bulks(const DatabaseParts& parts) {
  return std::make_unique<DatabaseBulks>(parts);
}

}  // namespace rung::cli
