#include "src/api/base/query.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/core/base/time.h"
#include "src/core/base/utf8.h"

namespace rung::api {
namespace {

std::string wrong_text(std::string_view value) {
  if (value.empty() || value.size() > kNameBytes || value.find('\0') != std::string_view::npos)
    return "must be a string of 1 to 255 bytes";
  return is_utf8(value) ? "" : "must be UTF-8 text";
}

// "newest, oldest or due".
std::string listed(std::span<const std::string_view> words) {
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i)
    list.append(i == 0 ? "" : i + 1 < words.size() ? ", " : " or ").append(words[i]);
  return list;
}

}  // namespace

std::optional<std::int64_t> id_of_cursor(std::string_view cursor) {
  const auto id = number_from<std::int64_t>(cursor);
  return id && *id >= 0 ? id : std::nullopt;
}

bool is_cause_id(std::string_view text) {
  return text.size() == 12 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_named(const Param& param, std::string_view name) {
  return param.is == Param::Is::headers ? name.starts_with(kHeaderParam) && name != kHeaderParam
                                        : name == param.name;
}

std::string wrong_value(const Param& param, std::string_view value) {
  using enum Param::Is;
  const auto known = [&](std::string_view word) {
    return std::ranges::find(param.words, word) != param.words.end();
  };
  switch (param.is) {
    case any:
    case list:
    case header:
      return "";
    case text:
    case headers:
      return wrong_text(value);
    case cause:
      return is_cause_id(value) ? "" : std::string(kCauseIdForm);
    case word:
      return known(value) ? "" : "must be " + listed(param.words);
    case Param::Is::words: {
      const auto given = split_words(value);
      const bool good = !given.empty() && std::ranges::all_of(given, known);
      return good ? "" : "must be " + listed(param.words) + ", or several of these separated by commas";
    }
    case flag:
      return value == "true" || value == "false" ? "" : "must be true or false";
    case time:
      return from_rfc3339(written_time(value)) ? "" : "must be an RFC 3339 time, e.g. 2026-11-21T17:05:00Z";
    case duration: {
      const auto length = levels::parse_duration(std::string(value));
      return length ? "" : length.error();
    }
    case limit: {
      const auto rows = id_of_cursor(value);
      return rows && *rows >= 1 && *rows <= kMostOnPage
                 ? ""
                 : "must be an integer from 1 to " + std::to_string(kMostOnPage);
    }
    case cursor:
      return value.empty() ? kWrongCursor : "";
    case id_cursor:
      return id_of_cursor(value) ? "" : kWrongCursor;
  }
  return "";
}

std::string written_time(std::string_view value) {
  std::string time(value);
  if (time.size() > 6 && time[time.size() - 6] == ' ') time[time.size() - 6] = '+';
  return time;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t from = 0; from <= text.size() && !text.empty();) {
    const std::size_t to = std::min(text.find(',', from), text.size());
    std::string_view word = text.substr(from, to - from);
    if (word.starts_with(' ')) word.remove_prefix(1);
    words.emplace_back(word);
    from = to + 1;
  }
  return words;
}

Json param_json(const Param& param) {
  using enum Param::Is;
  Json schema = {{"type", "string"}};
  Json json = {
      {"name", param.name}, {"in", param.is == header ? "header" : "query"}, {"description", param.help}};
  switch (param.is) {
    case word:
      schema = {{"enum", param.words}};
      break;
    case Param::Is::words:
    case list:
      schema = {{"type", "array"}, {"items", schema}};
      if (!param.words.empty()) schema["items"] = {{"enum", param.words}};
      json.update({{"style", "form"}, {"explode", false}});
      break;
    case flag:
      schema = {{"type", "boolean"}, {"default", false}};
      break;
    case time:
      schema["format"] = "date-time";
      break;
    case limit:
      schema = {{"type", "integer"}, {"minimum", 1}, {"maximum", kMostOnPage}, {"default", kUsualPage}};
      break;
    case headers:
      schema = {{"type", "object"}, {"patternProperties", {{"^header\\.", {{"type", "string"}}}}}};
      json.update({{"style", "form"}, {"explode", true}});
      break;
    default:
      break;
  }
  json["schema"] = std::move(schema);
  return json;
}

std::string known_params(std::span<const Param> params) {
  std::string names;
  for (const Param& one : params) {
    if (one.is == Param::Is::header) continue;
    names.append(names.empty() ? "" : ", ").append(one.is == Param::Is::headers ? "header.NAME" : one.name);
  }
  return names;
}

void check_params(const Pairs& given, std::span<const Param> params, FieldErrors& errors,
                  std::string_view prefix, const std::string& kind) {
  for (auto pair = given.begin(); pair != given.end() && errors.size() <= kMostTold; ++pair) {
    const auto& [name, value] = *pair;
    const auto param =
        std::ranges::find_if(params, [&known = name](const Param& one) { return is_named(one, known); });
    std::string wrong;
    if (param == params.end() || param->is == Param::Is::header) {
      const std::string known = known_params(params);
      wrong =
          "unknown " + kind + (known.empty() ? ": there are none here" : "; known " + kind + "s: " + known);
    } else if (std::ranges::find(given.begin(), pair, name, &Pairs::value_type::first) != pair) {
      wrong = "given twice";
    } else {
      wrong = wrong_value(*param, value);
    }
    if (!wrong.empty()) errors.push_back({std::string(prefix) + clean_utf8(name, 60), std::move(wrong)});
  }
}

const std::string* Query::find(std::string_view name) const {
  const auto found = std::ranges::find(given_, name, &Pairs::value_type::first);
  return found != given_.end() ? &found->second : nullptr;
}

std::string Query::text(std::string_view name) const {
  const std::string* const value = find(name);
  return value != nullptr ? *value : "";
}

std::optional<EpochMs> Query::time(std::string_view name) const {
  const std::string* const value = find(name);
  return value != nullptr ? from_rfc3339(written_time(*value)) : std::nullopt;
}

Page Query::page() const {
  Page page;
  if (const std::string* const limit = find("limit")) page.limit = std::stoi(*limit);
  page.cursor = text("cursor");
  return page;
}

}  // namespace rung::api
