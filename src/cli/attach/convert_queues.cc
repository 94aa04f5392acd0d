// rung convert-queues: gives Rung's own queues another type.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "plugin/rabbitmq/topology/management.h"
#include "plugin/rabbitmq/topology/queue_conversion.h"
#include "plugin/rabbitmq/topology/topology.h"
#include "src/api/json/json.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"

namespace rung::cli {
namespace {

constexpr Ms kConvertTimeout{std::chrono::seconds{30}};

struct ConvertOptions {
  Common common;
  std::string to = "quorum";
  bool yes = false;
};

struct OwnQueue {
  std::string name;
  std::string type;  // "" = it does not exist
  std::uint32_t consumers = 0;
  bool unfinished = false;  // an earlier conversion has left its queue
  std::vector<rabbit::Binding> bindings;
  std::int64_t moved = 0;
};

// Also of the queue that an unfinished conversion has left.
Result<std::vector<rabbit::Binding>> bindings_of(rabbit::QueueAdmin& admin, const std::string& queue) {
  std::vector<rabbit::Binding> all;
  for (const std::string& name : {queue, rabbit::moving_queue(queue)}) {
    auto bindings = admin.bindings(true, name);
    if (!bindings) return tl::unexpected(bindings.error());
    for (rabbit::Binding& binding : *bindings) {
      if (binding.source.empty()) continue;  // the default exchange: always
      if (binding.arguments != "{}") {
        return tl::unexpected(Error{
            Error::Kind::refused, fmt::format("queue {} is bound to exchange {} with arguments: remove that "
                                              "binding, and make it again afterwards",
                                              name, binding.source)});
      }
      const auto same = [&](const rabbit::Binding& other) {
        return other.source == binding.source && other.routing_key == binding.routing_key;
      };
      if (std::ranges::none_of(all, same)) all.push_back(std::move(binding));
    }
  }
  return all;
}

Result<std::vector<OwnQueue>> look(const BrokerOptions& broker, rabbit::QueueAdmin& admin,
                                   rabbit::QueueConverter& converter) {
  std::vector<OwnQueue> queues;
  for (const rabbit::Declared& one : rabbit::topology(broker)) {
    OwnQueue queue{one.name, {}, 0, false, {}, 0};
    const auto not_there = [](const Error& error) { return error.kind == Error::Kind::not_found; };
    if (const auto facts = admin.queue(one.name)) {
      queue.type = facts->type;
    } else if (!not_there(facts.error())) {
      return tl::unexpected(facts.error());
    }
    if (const auto consumers = converter.consumers(one.name)) {
      queue.consumers = *consumers;
    } else if (!not_there(consumers.error())) {
      return tl::unexpected(consumers.error());
    }
    if (const auto left = converter.consumers(rabbit::moving_queue(one.name))) {
      queue.unfinished = true;
    } else if (!not_there(left.error())) {
      return tl::unexpected(left.error());
    }
    auto bindings = bindings_of(admin, one.name);
    if (!bindings) return tl::unexpected(bindings.error());
    queue.bindings = *std::move(bindings);
    queues.push_back(std::move(queue));
  }
  return queues;
}

bool is_due(const OwnQueue& queue, const std::string& to) {
  return queue.unfinished || (!queue.type.empty() && queue.type != to);
}

std::string text(const OwnQueue& queue, const std::string& to, bool done) {
  if (queue.type.empty() && !queue.unfinished)
    return fmt::format("{}: there is no such queue; `rung run` declares it\n", queue.name);
  if (!is_due(queue, to)) return fmt::format("{}: {} already\n", queue.name, to);
  if (done) return fmt::format("{}: {} now; messages moved: {}\n", queue.name, to, queue.moved);
  return fmt::format("{}: {}{}\n", queue.name, queue.type.empty() ? "missing" : queue.type,
                     queue.unfinished ? ", a conversion is not finished" : "");
}

Json to_json(const std::vector<OwnQueue>& queues, const std::string& to, bool changed) {
  Json out = {{"queues", Json::array()}, {"changed", changed}};
  for (const OwnQueue& queue : queues) {
    out["queues"].push_back({{"queue", queue.name},
                             {"type", changed && is_due(queue, to) ? Json(to)
                                      : queue.type.empty()         ? Json()
                                                                   : Json(queue.type)},
                             {"moved", queue.moved}});
  }
  return out;
}

int convert(const ConvertOptions& options) {
  Config config;
  if (const int code = load(options.common, config, ConfigFor::sidecar); code != kSuccess) return code;
  const std::string& configured = config.broker.rabbitmq.queue_type;
  if (configured != "auto" && configured != options.to) {
    return report_error(kUserError, fmt::format("broker.queue_type is {}: set it to {}, or to auto, first",
                                                configured, options.to));
  }
  auto admin = rabbit::management_admin(config.broker, kConvertTimeout);
  if (!admin) return report_error(admin.error());
  if (auto reached = (*admin)->reach(); !reached) return report_error(reached.error());
  const SystemClock clock;
  auto converter = rabbit::QueueConverter::open(config.broker, clock, kConvertTimeout);
  if (!converter) return report_error(converter.error());
  auto queues = look(config.broker, **admin, **converter);
  if (!queues) return report_error(queues.error());

  const bool json = options.common.json;
  const auto show = [&](bool done) {
    if (json) return print_json(to_json(*queues, options.to, done));
    for (const OwnQueue& queue : *queues) print(text(queue, options.to, done));
    return static_cast<int>(kSuccess);
  };
  const auto due = [&](const OwnQueue& queue) { return is_due(queue, options.to); };
  if (std::ranges::none_of(*queues, due)) return show(false);
  if (!options.yes) {
    show(false);
    return report_error(kUserError,
                        "nothing was changed: stop the sidecars, then run `rung convert-queues --yes`");
  }
  for (const OwnQueue& queue : *queues) {
    if (due(queue) && queue.consumers > 0)
      return report_error(kUserError,
                          fmt::format("nothing was changed: {} has {} consumers; stop the sidecars "
                                      "first",
                                      queue.name, queue.consumers));
  }
  for (OwnQueue& queue : *queues) {
    if (!due(queue)) continue;
    const auto moved = (*converter)->convert(queue.name, queue.bindings, options.to);
    if (!moved) {
      Error error = moved.error();
      error.message = fmt::format("{}: {}; nothing is lost: run this again, before you start the sidecars",
                                  queue.name, error.message);
      return report_error(error);
    }
    queue.moved = *moved;
  }
  return show(true);
}

}  // namespace

void add_convert_queues(CLI::App& app, int* exit) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App& c = add_command(
      app, "convert-queues", "Makes Rung's own classic queues quorum queues",
      "Examples:\n"
      "  rung convert-queues              the types of Rung's own queues\n"
      "  rung convert-queues --yes        converts them; no sidecar may run meanwhile\n"
      "Nothing is lost: failures that arrive meanwhile wait in the broker. If it ends early, run it again\n"
      "before you start the sidecars. Needs the management API. See docs/broker-settings.md.",
      options->common);
  c.add_option("--to", options->to, "The type that they get")
      ->check(CLI::IsMember({"quorum", "classic"}))
      ->capture_default_str();
  c.add_flag("-y,--yes", options->yes, "Convert them; without it, only show them");
  c.callback([options, exit] { *exit = convert(*options); });
}

}  // namespace rung::cli
