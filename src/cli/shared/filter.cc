#include "src/cli/shared/filter.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "plugin/rabbitmq/topology/attachment.h"
#include "src/api/tasks/filter.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/text.h"
#include "src/config/document.h"
#include "src/core/base/time.h"

namespace rung::cli {

namespace {

// The next time after `now` at which this machine's clock shows `time`. Where it skips that time (daylight
// saving begins), the library chooses one near it.
EpochMs next_local(Ms time, EpochMs now) {
  const std::time_t unix_time = now.ms / 1000;
  std::tm today{};
  localtime_r(&unix_time, &today);
  const std::chrono::hh_mm_ss<Ms> clock(time);
  for (int days = 0;; ++days) {
    std::tm then = today;
    then.tm_mday += days;  // mktime() carries over
    then.tm_hour = static_cast<int>(clock.hours().count());
    then.tm_min = static_cast<int>(clock.minutes().count());
    then.tm_sec = static_cast<int>(clock.seconds().count());
    then.tm_isdst = -1;  // unknown
    const EpochMs at{static_cast<std::int64_t>(std::mktime(&then)) * 1000 + clock.subseconds().count()};
    if (at > now || days == 2) return at;
  }
}

}  // namespace

tl::expected<EpochMs, std::string> parse_when(std::string_view text, EpochMs now, Direction direction) {
  if (text == "now") return now;
  if (const auto instant = read_instant(text)) return *instant;
  const bool minus = text.starts_with('-');
  const bool is_signed = minus || text.starts_with('+');
  const auto duration = levels::parse_duration(is_signed ? text.substr(1) : text);
  if (!duration) {
    return tl::unexpected(
        fmt::format("'{}' is neither a time (2026-11-21T17:05:00Z, UTC unless it has an offset) nor a "
                    "duration (90s, 1h30m, 2d)",
                    text));
  }
  const bool back = is_signed ? minus : direction == Direction::past;
  return back ? now - *duration : now + *duration;
}

tl::expected<EpochMs, std::string> parse_until(std::string_view text, EpochMs now) {
  if (const auto time = read_time_of_day(text)) return next_local(*time, now);
  if (const auto instant = read_instant(text)) return *instant;
  return tl::unexpected(fmt::format(
      "'{}' is neither a time of day (08:00, by this machine's clock) nor a time (2026-11-21T17:05:00Z, UTC "
      "unless it has an offset)",
      text));
}

std::string option_for(std::string_view name) {
  std::string flag = "--" + std::string(name);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

namespace {

// Due times are ahead, all others have been.
Direction direction_of(std::string_view name) {
  return name.starts_with("due_") ? Direction::future : Direction::past;
}

}  // namespace

void add_filter(CLI::App& c, FilterOptions& o, bool by_error) {
  c.option_defaults()->group("Which tasks");
  for (const api::Condition& condition : api::kConditions) {
    const api::Param& param = condition.param;
    const std::string name(param.name), flag = option_for(name), help(param.help);
    std::string& value = o.values[name];
    const std::vector<std::string> words(param.words.begin(), param.words.end());
    if (param.is == api::Param::Is::headers) {
      c.add_option("--header", o.headers,
                   "a header, and its value; only headers listed under index_headers in the config")
          ->type_name("NAME=VALUE")
          ->allow_extra_args(false);
    } else if (param.is == api::Param::Is::words) {
      c.add_option(flag, o.states, help + ": --state parked,scheduled")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->check(CLI::IsMember(words));
    } else if (words == std::vector<std::string>{"true"}) {
      c.add_flag_callback(
          flag, [&value] { value = "true"; }, help);
    } else if (param.is == api::Param::Is::word) {
      c.add_option(flag, value, help)->check(CLI::IsMember(words));
    } else if (param.is == api::Param::Is::time) {
      const bool ahead = direction_of(name) == Direction::future;
      c.add_option(flag + (name == "first_failed_after" ? ",--since" : ""), value,
                   help + (ahead ? "; a duration counts from now" : "; a duration counts back from now"))
          ->type_name("TIME");
    } else if (name != "error" || by_error) {
      c.add_option(flag, value, help)->type_name(name == "queue" ? "QUEUE" : "TEXT");
    }
  }
  c.option_defaults()->group("Options");
}

void suggest_queue(Session& session, const std::string& queue) {
  if (queue.empty()) return;
  const auto counted = session.api->get(with_query("/v1/tasks", {{"queue", queue}, {"count", "true"}}));
  if (!counted || number_of(*counted, "count") > 0) return;
  const auto known = read_rows(*session.api, "/v1/queues", {}, "queues");
  if (!known) return;
  std::vector<std::string> names;
  for (const Json& one : part_of(*known, "queues")) {
    // It may just have been paused.
    if (text_of(one, "queue") != queue || part_of(one, "attached").is_boolean())
      names.push_back(text_of(one, "queue"));
  }
  const std::string near = confile::did_you_mean(queue, names);
  if (!near.empty() && std::ranges::find(names, queue) == names.end())
    report_error(kUserError, "no queue " + confile::in_quotes(queue) + near);
}

bool is_set(const FilterOptions& o) {
  const auto has_value = [](const auto& entry) { return !entry.second.empty(); };
  return std::ranges::any_of(o.values, has_value) || !o.states.empty() || !o.headers.empty();
}

int read_filter(const FilterOptions& o, EpochMs now, Filter& filter) {
  api::Pairs conditions;
  for (const api::Condition& condition : api::kConditions) {
    const std::string name(condition.param.name);
    const auto it = o.values.find(name);
    if (it == o.values.end() || it->second.empty()) continue;
    std::optional<EpochMs> at;
    if (condition.param.is == api::Param::Is::time) {
      if (const int code = read_time(option_for(name).c_str(), it->second, now, direction_of(name), at);
          code != kSuccess)
        return code;
    }
    conditions.emplace_back(name, at ? to_rfc3339(*at) : it->second);
  }
  if (!o.states.empty()) conditions.emplace_back("state", fmt::format("{}", fmt::join(o.states, ",")));
  for (const std::string& header : o.headers) {
    const auto equals = header.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == header.size())
      return report_error(kUserError, "--header: '" + header + "' is not NAME=VALUE, e.g. tenant=acme");
    conditions.emplace_back("header." + header.substr(0, equals), header.substr(equals + 1));
  }
  api::FieldErrors errors;
  filter = api::read_filter(conditions, "", errors);
  if (errors.empty()) return kSuccess;
  const auto& [field, detail] = errors.front();
  if (field.starts_with("header."))
    return report_error(kUserError, "--header " + field.substr(7) + ": " + detail);
  return report_error(kUserError, option_for(field) + " " + detail);
}

int read_time(const char* flag, const std::string& text, EpochMs now, Direction direction,
              std::optional<EpochMs>& to) {
  if (text.empty()) return kSuccess;
  const auto when = parse_when(text, now, direction);
  if (!when) return report_error(kUserError, std::string(flag) + ": " + when.error());
  to = *when;
  return kSuccess;
}

namespace {

void add_flag(std::string& out, const std::string& name, std::string_view value) {
  if (value.empty()) return;
  out += (out.empty() ? "" : " ") + name + " ";
  const bool plain =
      value.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:,=-") ==
      std::string_view::npos;
  out += plain ? std::string(value) : rabbit::shell_quote(value);
}

}  // namespace

Parameters conditions_of(const Filter& filter) {
  Parameters parameters;
  const Json json = api::filter_json(filter);
  for (const auto& [name, value] : json.items()) parameters.emplace_back(name, value.get<std::string>());
  return parameters;
}

// {"first_failed_after": "2026-...", "header.tenant": "acme"}
std::string filter_flags(const Json& filter) {
  constexpr std::string_view kHeader = "header.";
  std::string out;
  for (const auto& [name, value] : filter.items()) {
    if (!value.is_string()) continue;
    const auto& text = value.get_ref<const std::string&>();
    if (name == "silence_held") {
      out += out.empty() ? "--silence-held" : " --silence-held";
    } else if (name.starts_with(kHeader)) {
      add_flag(out, "--header", name.substr(kHeader.size()) + "=" + text);
    } else {
      add_flag(out, option_for(name), text);
    }
  }
  return out;
}

CLI::Option* add_count_by(CLI::App& c, std::string& by) {
  return c
      .add_option(
          "--by", by,
          "With --count: by queue, error_type, tag, level, cause or header.NAME (one in index_headers)")
      ->type_name("FIELD");
}

int check_count_by(const std::string& by) {
  if (by.empty() || CountBy::parse(by)) return kSuccess;
  return report_error(
      kUserError, "--by: '" + by + "' is not queue, error_type, tag, level, cause or header.NAME" +
                      confile::did_you_mean(by, {"queue", "error_type", "tag", "level", "cause", "header."}));
}

std::string counts_text(const Json& counts) {
  using enum Table::Align;
  std::string title = text_of(counts, "by");
  if (!title.starts_with("header.")) {
    std::ranges::transform(title, title.begin(), [](char c) {
      return c == '_' ? ' ' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    });
  }
  Table table({{"TASKS", right, 0, 0, [](const Json& group) { return grouped(number_of(group, "count")); }},
               {title, left, 0, 0, text_cell("value")}},
              part_of(counts, "groups"));
  if (const auto others = number_of(counts, "others"); others > 0) table.row({grouped(others), "(others)"});
  return table.str(Terminal::of_stdout(), false);
}

}  // namespace rung::cli
