#include "src/cli/shared/filter.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "plugin/rabbitmq/topology/attachment.h"
#include "src/api/tasks/causes.h"
#include "src/api/tasks/filter.h"
#include "src/api/tasks/pages.h"
#include "src/cli/service/answers.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/text.h"
#include "src/config/document.h"

namespace rung::cli {

namespace {

// The options that are a time.
struct TimeOption {
  const char* flag;
  std::string FilterOptions::*text;
  Direction direction;
  std::optional<EpochMs> Filter::*to;
  const char* help;
};
constexpr TimeOption kTimes[] = {
    {"--due-before", &FilterOptions::due_before, Direction::future, &Filter::due_before,
     "Due before this time; a duration counts from now"},
    {"--due-after", &FilterOptions::due_after, Direction::future, &Filter::due_after,
     "Due after this time; a duration counts from now"},
    {"--first-failed-after,--since", &FilterOptions::first_failed_after, Direction::past,
     &Filter::first_failed_after, "First failed after this time; a duration counts back from now"},
    {"--first-failed-before", &FilterOptions::first_failed_before, Direction::past,
     &Filter::first_failed_before, "First failed before this time; a duration counts back from now"},
    {"--created-after", &FilterOptions::created_after, Direction::past, &Filter::created_after,
     "Received after this time; a duration counts back from now"},
    {"--created-before", &FilterOptions::created_before, Direction::past, &Filter::created_before,
     "Received before this time; a duration counts back from now"},
};

}  // namespace

void add_filter(CLI::App& c, FilterOptions& o, bool by_error) {
  Filter& f = o.filter;
  c.add_option("--queue", f.queue, "Tasks for this queue")->type_name("NAME");
  c.add_option("--exchange", f.exchange, "Tasks whose message was, or will be, published to this exchange")
      ->type_name("NAME");
  c.add_option("--state", o.states, "Tasks in this state; several: --state parked,scheduled")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(
          {"scheduled", "publishing", "awaiting", "succeeded", "parked", "cancelled", "discarded"}));
  c.add_option("--kind", o.kind, "retry: failed messages; delay: delayed messages")
      ->check(CLI::IsMember({"retry", "delay"}));
  c.add_option("--tag", f.tag, "Tasks with this tag (message property `type`)")->type_name("TAG");
  c.add_option("--message-id", f.message_id, "Tasks with this message-id")->type_name("ID");
  c.add_option("--correlation-id", f.correlation_id, "Tasks with this message property correlation_id")
      ->type_name("ID");
  c.add_option("--header", o.headers,
               "Tasks with this header; only headers listed under index_headers in the config")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  c.add_option("--ladder", f.ladder, "Tasks on this ladder")->type_name("NAME");
  if (by_error) {
    c.add_option("--error", f.error_contains, "Tasks whose last error contains this text")->type_name("TEXT");
  }
  c.add_option("--error-type", f.error_type, "Tasks whose last error has this type")->type_name("TYPE");
  c.add_option("--cause", f.cause, "Tasks of this cause: see rung causes")->type_name("CAUSE");
  for (const TimeOption& time : kTimes) c.add_option(time.flag, o.*time.text, time.help)->type_name("TIME");
  c.add_flag("--silence-held", f.silence_held,
             "Deliveries whose silence is held open, because their queue was not attached");
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
  const Filter& f = o.filter;
  const auto is_text = [](const std::string* text) { return !text->empty(); };
  const auto is_time = [&](const TimeOption& time) { return !(o.*time.text).empty(); };
  const auto texts = {&o.kind,       &f.error_contains, &f.queue,      &f.exchange,       &f.tag,
                      &f.message_id, &f.ladder,         &f.error_type, &f.correlation_id, &f.cause};
  return std::ranges::any_of(texts, is_text) || std::ranges::any_of(kTimes, is_time) || !o.states.empty() ||
         !o.headers.empty() || f.silence_held;
}

void read_states(const FilterOptions& o, Filter& filter) {
  for (const std::string& word : o.states) {
    const State state = state_from(word).value_or(State::scheduled);
    if (o.states.size() == 1) filter.state = state;
    if (o.states.size() > 1) filter.states.push_back(state);
  }
}

int read_filter(const FilterOptions& o, EpochMs now, Filter& filter) {
  filter = o.filter;
  read_states(o, filter);
  if (!filter.cause.empty() && !api::is_cause_id(filter.cause))
    return report_error(kUserError, "--cause " + std::string(api::kCauseIdForm));
  for (const std::string& header : o.headers) {
    const auto equals = header.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == header.size())
      return report_error(kUserError, "--header: '" + header + "' is not NAME=VALUE, e.g. tenant=acme");
    // A message has one value of each; and a filter as JSON can name each but once.
    const std::string name = header.substr(0, equals);
    if (std::ranges::any_of(filter.headers, [&](const auto& other) { return other.first == name; }))
      return report_error(kUserError, "--header: '" + name + "' is given twice");
    filter.headers.emplace_back(name, header.substr(equals + 1));
  }
  if (!o.kind.empty()) filter.kind = kind_from(o.kind);
  for (const TimeOption& time : kTimes) {
    if (const int code = read_time(time.flag, o.*time.text, now, time.direction, filter.*time.to);
        code != kSuccess)
      return code;
  }
  return kSuccess;
}

int read_time(const char* flag, const std::string& text, EpochMs now, Direction direction,
              std::optional<EpochMs>& to) {
  if (text.empty()) return kSuccess;
  const auto when = parse_when(text, now, direction);
  if (!when) return report_error(kUserError, std::string(flag) + ": " + when.error());
  to = *when;
  return kSuccess;
}

int read_cursor(const std::string& text, std::optional<std::int64_t>& cursor) {
  cursor = api::id_of_cursor(text);
  if (text.empty() || cursor) return kSuccess;
  return report_error(kUserError, "--cursor: '" + text + "' is not the `next` of a page");
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
      std::string flag = "--" + name;
      std::ranges::replace(flag, '_', '-');
      add_flag(out, flag, text);
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

int read_count_by(const std::string& text, std::optional<CountBy>& by) {
  if (text.empty()) return kSuccess;
  by = CountBy::parse(text);
  if (by) return kSuccess;
  return report_error(
      kUserError,
      "--by: '" + text + "' is not queue, error_type, tag, level, cause or header.NAME" +
          confile::did_you_mean(text, {"queue", "error_type", "tag", "level", "cause", "header."}));
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
               {title, left, 0, 0, text_cell("value")}});
  for (const Json& group : part_of(counts, "groups")) table.add(group);
  if (const auto others = number_of(counts, "others"); others > 0) table.row({grouped(others), "(others)"});
  return table.str(Terminal::of_stdout(), false);
}

}  // namespace rung::cli
