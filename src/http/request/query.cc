#include "src/http/request/query.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "src/api/tasks/causes.h"
#include "src/core/base/rfc3339.h"
#include "src/core/base/utf8.h"

namespace rung::http {
namespace {

constexpr std::string_view kNames =
    "queue, exchange, tag, state, kind, message_id, correlation_id, header.NAME, ladder, error, error_type, "
    "cause, "
    "due_after, due_before, created_after, created_before, first_failed_after, first_failed_before, "
    "silence_held";

constexpr std::string_view kHeader = "header.";
constexpr const char* kWrongCursor = "must be the `next` of the previous page, in the same order";

struct Reader {
  Filter filter;
  FieldErrors& errors;
  std::string prefix;

  void wrong(const std::string& name, std::string detail) {
    errors.push_back({prefix + name, std::move(detail)});
  }

  void text(const std::string& name, const std::string& value, std::string& out) {
    if (value.empty() || value.size() > api::kNameBytes || value.find('\0') != std::string::npos)
      return wrong(name, "must be a string of 1 to 255 bytes");
    if (!is_utf8(value)) return wrong(name, "must be UTF-8 text");
    out = value;
  }

  void time(const std::string& name, std::string value, std::optional<EpochMs>& out) {
    // In a query, a + that was not written as %2B has become a space.
    if (value.size() > 6 && value[value.size() - 6] == ' ') value[value.size() - 6] = '+';
    out = from_rfc3339(value);
    if (!out) wrong(name, "must be an RFC 3339 time, e.g. 2026-11-21T17:05:00Z");
  }

  // One state, or several separated by commas.
  void states(const std::string& name, const std::string& value) {
    for (const std::string& word : words_of(value)) {
      const auto state = state_from(word);
      if (!state) {
        return wrong(name,
                     "must be scheduled, publishing, awaiting, succeeded, parked, cancelled or discarded, or "
                     "a comma-separated list of these");
      }
      filter.states.push_back(*state);
    }
    if (filter.states.size() > 1) return;
    filter.state = filter.states.front();
    filter.states.clear();
  }

  bool take(const std::string& name, const std::string& value) {
    if (name == "queue") return text(name, value, filter.queue), true;
    if (name == "exchange") return text(name, value, filter.exchange), true;
    if (name == "tag") return text(name, value, filter.tag), true;
    if (name == "message_id") return text(name, value, filter.message_id), true;
    if (name == "correlation_id") return text(name, value, filter.correlation_id), true;
    if (name.starts_with(kHeader) && name.size() > kHeader.size()) {
      std::string wanted;
      text(name, value, wanted);
      filter.headers.emplace_back(name.substr(kHeader.size()), std::move(wanted));
      return true;
    }
    if (name == "ladder") return text(name, value, filter.ladder), true;
    if (name == "error") return text(name, value, filter.error_contains), true;
    if (name == "error_type") return text(name, value, filter.error_type), true;
    if (name == "cause") {
      if (!api::is_cause_id(value)) wrong(name, std::string(api::kCauseIdForm));
      filter.cause = value;
      return true;
    }
    if (name == "first_failed_after") return time(name, value, filter.first_failed_after), true;
    if (name == "first_failed_before") return time(name, value, filter.first_failed_before), true;
    if (name == "due_after") return time(name, value, filter.due_after), true;
    if (name == "due_before") return time(name, value, filter.due_before), true;
    if (name == "created_after") return time(name, value, filter.created_after), true;
    if (name == "created_before") return time(name, value, filter.created_before), true;
    if (name == "silence_held") {
      filter.silence_held = value == "true";
      if (!filter.silence_held) wrong(name, "must be true");
      return true;
    }
    if (name == "state") return states(name, value), true;
    if (name == "kind") {
      filter.kind = kind_from(value);
      if (!filter.kind) wrong(name, "must be retry or delay");
      return true;
    }
    return false;
  }
};

}  // namespace

Filter read_filter(const Pairs& conditions, std::string_view prefix, FieldErrors& errors) {
  Reader reader{{}, errors, std::string(prefix)};
  std::vector<std::string> seen;
  for (const auto& [name, value] : conditions) {
    if (errors.size() > api::kMostTold) break;
    if (std::ranges::find(seen, name) != seen.end()) {
      reader.wrong(clean_utf8(name, 60), "given twice");
      continue;
    }
    seen.push_back(name);
    if (!reader.take(name, value))
      reader.wrong(clean_utf8(name, 60), "unknown condition; known conditions: " + std::string(kNames) +
                                             (prefix.empty() ? ", sort, limit, cursor, count and by" : ""));
  }
  return reader.filter;
}

std::optional<std::string> take(Pairs& query, std::string_view name, FieldErrors& errors) {
  std::optional<std::string> value;
  std::erase_if(query, [&](auto& one) {
    if (one.first != name) return false;
    if (value) errors.push_back({std::string(name), "given twice"});
    value = std::move(one.second);
    return true;
  });
  return value;
}

std::string take_text(Pairs& query, const std::string& name, FieldErrors& errors) {
  std::string text;
  if (const auto value = take(query, name, errors)) Reader{{}, errors, ""}.text(name, *value, text);
  return text;
}

std::optional<EpochMs> take_time(Pairs& query, const std::string& name, FieldErrors& errors) {
  std::optional<EpochMs> at;
  if (const auto value = take(query, name, errors)) Reader{{}, errors, ""}.time(name, *value, at);
  return at;
}

std::vector<std::string> words_of(const std::optional<std::string>& text) {
  std::vector<std::string> words;
  for (std::size_t from = 0; text && from <= text->size();) {
    const std::size_t to = std::min(text->find(',', from), text->size());
    words.push_back(text->substr(from, to - from));
    from = to + 1;
  }
  return words;
}

api::Page take_page(Pairs& query, Cursor kind, FieldErrors& errors) {
  api::Page page;
  if (const auto limit = take(query, "limit", errors)) {
    const auto [end, error] = std::from_chars(limit->data(), limit->data() + limit->size(), page.limit);
    if (error != std::errc{} || end != limit->data() + limit->size() || page.limit < 1 ||
        page.limit > api::kMostOnPage)
      errors.push_back({"limit", "must be an integer from 1 to " + std::to_string(api::kMostOnPage)});
  }
  if (auto cursor = take(query, "cursor", errors)) {
    if (cursor->empty() || (kind == Cursor::id && !api::id_of_cursor(*cursor)))
      errors.push_back({"cursor", kWrongCursor});
    page.cursor = *std::move(cursor);
  }
  return page;
}

bool take_flag(Pairs& query, std::string_view name, FieldErrors& errors) {
  const auto value = take(query, name, errors);
  if (value && value != "true" && value != "false")
    errors.push_back({std::string(name), "must be true or false"});
  return value == "true";
}

void refuse_rest(const Pairs& query, FieldErrors& errors) {
  for (const auto& [name, value] : query) {
    if (errors.size() > api::kMostTold) return;
    errors.push_back({clean_utf8(name, 60), "unknown parameter: see /openapi.json"});
  }
}

std::optional<Response> refuse_query(const Request& request) {
  FieldErrors errors;
  refuse_rest(request.query, errors);
  return errors.empty() ? std::nullopt : std::optional(problem(errors, request.path));
}

Result<Json> object_of(const Request& request, std::string_view form, bool may_be_empty) {
  if (may_be_empty && request.body.empty()) return Json(Json::object());
  auto json = api::parse_json(request.body);
  if (json && !json->is_object()) return permanent(std::string(form));
  return json;
}

Filter read_tasks(Pairs query, FieldErrors& errors) {
  const api::Page page = take_page(query, Cursor::text, errors);
  const auto sort = take(query, "sort", errors);
  Filter filter = read_filter(query, "", errors);
  filter.limit = page.limit;
  if (sort) {
    const auto order = order_from(*sort);
    if (!order) errors.push_back({"sort", "must be newest, oldest or due"});
    filter.order = order.value_or(Filter::Order::newest);
  }
  if (!page.cursor.empty() && !api::read_cursor(page.cursor, filter))
    errors.push_back({"cursor", kWrongCursor});
  return filter;
}

CountWanted take_count(Pairs& query, FieldErrors& errors) {
  CountWanted wanted;
  wanted.count = take_flag(query, "count", errors);
  if (const auto by = take(query, "by", errors)) {
    wanted.by = CountBy::parse(*by);
    if (!wanted.by) errors.push_back({"by", "must be " + std::string(kCountByWords)});
    if (!wanted.count) errors.push_back({"by", "only valid with count=true"});
  }
  return wanted;
}

Response filter_problem(const Filter& filter, const Error& error, std::string_view instance,
                        bool counted_by) {
  // The header is not indexed (only the store knows which ones are), or the queue is a pattern.
  const bool ours = error.kind == Error::Kind::permanent &&
                    (!filter.headers.empty() || !filter.queue.empty() || counted_by);
  return ours ? problem(400, error.message, instance) : problem(error, instance);
}

Filter read_filter_object(const Json& json, FieldErrors& errors) {
  if (!json.is_object()) {
    errors.push_back({"filter", "must be an object: {\"queue\": \"orders\", \"state\": \"parked\"}"});
    return {};
  }
  Pairs conditions;
  for (const auto& [name, value] : json.items()) {
    if (errors.size() > api::kMostTold) break;
    if (value.is_string()) {
      conditions.emplace_back(name, value.get<std::string>());
    } else {
      errors.push_back({"filter." + clean_utf8(name, 60), "must be a string"});
    }
  }
  if (json.empty()) {
    errors.push_back(
        {"filter",
         "an empty filter means every task: name a queue, a tag, a state or a time; known conditions: " +
             std::string(kNames)});
  }
  return read_filter(conditions, "filter.", errors);
}

}  // namespace rung::http
