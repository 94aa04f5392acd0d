#include "src/http/fields.h"

#include <algorithm>
#include <cmath>

#include "levels/duration.h"
#include "src/core/message.h"
#include "src/core/rfc3339.h"
#include "src/core/utf8.h"

namespace rung::http {
namespace {

// Brackets within each other, without a look at whether they fit: the parser says that.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestNesting) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

std::string bytes(std::size_t n) { return std::to_string(n) + " bytes"; }

}  // namespace

std::string shown(std::string_view text) {
  std::string out = clean_utf8(text, 60);
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, '?');
  return "'" + out + "'";
}

Result<Json> parse_json(std::string_view text) {
  // Before it is parsed: a megabyte of brackets would become a gigabyte of values.
  if (too_deep(text))
    return permanent("the JSON is nested deeper than " + std::to_string(kDeepestNesting) + " levels");
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    return permanent("the body is not JSON, from byte " + std::to_string(e.byte) + " on");
  } catch (const std::exception&) {
    return permanent("the body is not JSON");
  }
}

Fields::Fields(const Json& object, std::string prefix, FieldErrors& errors)
    : object_(object), prefix_(std::move(prefix)), errors_(errors), first_(errors.size()) {}

void Fields::wrong(std::string_view name, std::string detail) {
  errors_.push_back({prefix_ + std::string(name), std::move(detail)});
}

const Json* Fields::get(std::string_view name) {
  if (std::ranges::find(known_, name) == known_.end()) known_.push_back(name);
  const auto it = object_.find(std::string(name));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<std::string> Fields::text(std::string_view name, std::size_t most) {
  const Json* value = get(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    wrong(name, "it is a text, in quotes");
    return std::nullopt;
  }
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > most) {
    wrong(name, "it is longer than " + bytes(most));
    return std::nullopt;
  }
  return text;
}

std::optional<std::string> Fields::name(std::string_view name) {
  auto text = this->text(name, kNameBytes);
  if (text && text->find('\0') != std::string::npos) {
    wrong(name, "it holds a NUL");
    return std::nullopt;
  }
  return text;
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t least, std::int64_t most) {
  const Json* value = get(name);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number_unsigned()
                        ? value->get<std::uint64_t>() <= static_cast<std::uint64_t>(most) || most < 0
                        : value->is_number_integer();
  if (fits) {
    const auto number = value->get<std::int64_t>();
    if (number >= least && number <= most) return number;
  }
  wrong(name, "it is a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return std::nullopt;
}

std::optional<double> Fields::number(std::string_view name, double least, double most) {
  const Json* value = get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (std::isfinite(number) && number >= least && number <= most) return number;
  }
  wrong(name, "it is a number from " + std::to_string(static_cast<std::int64_t>(least)) + " to " +
                  std::to_string(static_cast<std::int64_t>(most)));
  return std::nullopt;
}

std::optional<bool> Fields::flag(std::string_view name) {
  const Json* value = get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  wrong(name, "it is true or false");
  return std::nullopt;
}

std::optional<Ms> Fields::duration(std::string_view name, Ms least) {
  const Json* value = get(name);
  if (value == nullptr) return std::nullopt;
  std::optional<Ms> read;
  if (value->is_string()) {
    const auto parsed = levels::parse_duration(value->get_ref<const std::string&>());
    if (parsed) read = *parsed;
  } else if (value->is_number_integer()) {
    if (const auto ms = integer(name, least.count(), levels::kLongest.count())) return Ms{*ms};
    return std::nullopt;
  }
  if (read && *read >= least && *read <= levels::kLongest) return read;
  wrong(name, "it is a duration from " + levels::format_duration(least) +
                  " to 3650d: \"30m\", \"1h30m\", or a whole number of milliseconds");
  return std::nullopt;
}

std::optional<EpochMs> Fields::time(std::string_view name) {
  const Json* value = get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) {
    if (const auto t = from_rfc3339(value->get_ref<const std::string&>())) return t;
  }
  wrong(name, "it is a point in time as RFC 3339 has it: \"2026-11-21T17:05:00Z\"");
  return std::nullopt;
}

std::optional<Silence> Fields::silence(std::string_view name) {
  const Json* value = get(name);
  if (value == nullptr) return std::nullopt;
  constexpr const char* kForm = "it is {\"presumed_after\": \"10m\"} or {\"reported_within\": \"5m\"}";
  if (!value->is_object()) {
    wrong(name, kForm);
    return std::nullopt;
  }
  Fields inner(*value, prefix_ + std::string(name) + ".", errors_);
  const auto presumed = inner.duration("presumed_after", Ms{1});
  const auto reported = inner.duration("reported_within", Ms{1});
  inner.finish();
  if (presumed && !reported) return Silence{Silence::Means::success, *presumed};
  if (reported && !presumed) return Silence{Silence::Means::failure, *reported};
  const bool told = inner.has("presumed_after") != inner.has("reported_within");
  if (!told) wrong(name, std::string(kForm) + ", one of the two");
  return std::nullopt;
}

Target Fields::target() {
  Target target;
  target.queue = name("queue").value_or("");
  target.exchange = name("exchange").value_or("");
  target.routing_key = name("routing_key").value_or("");
  if (!target.queue.empty() && (!target.exchange.empty() || !target.routing_key.empty()))
    wrong("queue", "it goes alone: either queue, or exchange and routing_key");
  return target;
}

void Fields::finish() {
  for (const auto& [name, value] : object_.items()) {
    if (std::ranges::find(known_, name) != known_.end()) continue;
    std::string list;
    for (const std::string_view known : known_) list.append(list.empty() ? "" : ", ").append(known);
    errors_.insert(errors_.begin() + static_cast<std::ptrdiff_t>(first_),
                   {prefix_ + clean_utf8(name, 60), "there is no such field here; there are " + list});
  }
}

}  // namespace rung::http
