#include "src/api/base/message.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "levels/duration.h"
#include "src/core/base/hex.h"
#include "src/core/base/utf8.h"
#include "src/core/message/message.h"

namespace rung::api {

std::string shown(std::string_view text) {
  std::string out = clean_utf8(text, 60);
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, '?');
  return "'" + out + "'";
}

namespace {

// Calls `see` for each character outside the strings of JSON text, and for each opening quote.
template <typename See>
void outside_strings(std::string_view text, See see) {
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    in_string = c == '"';
    see(c);
  }
}

// Checks the nesting depth of brackets; the parser checks that they match.
bool too_deep(std::string_view text) {
  int depth = 0, deepest = 0;
  outside_strings(text, [&](char c) {
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  });
  return deepest > kDeepestNesting;
}

// Builds the parsed value. The library's own builder searches all keys of an object for each new one (seconds
// for some thousands of keys), and silently keeps the last of two equal keys.
class Builder {
 public:
  Builder(Json& root, std::string_view text, std::ptrdiff_t line) : root_(root), text_(text), line_(line) {}
  const std::string& why() const { return why_; }

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(std::int64_t value) { return put(value); }
  bool number_unsigned(std::uint64_t value) { return put(value); }
  // A number of more than 64 bits, or a number of a body that would be sent in other digits.
  bool number_float(double value, const std::string& digits) {
    const bool is_kept =
        in_body() ? Json(value).dump() == digits : digits.find_first_of(".eE") != std::string::npos;
    if (is_kept) return put(value);
    why_ = "the number " + shown(digits) + " cannot be kept as it is written: send it as a string" +
           (in_body() ? ", or the body as a string (its JSON as text) or as body_base64" : "");
    return false;
  }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // not in JSON text
  bool key(std::string& key) {
    key_ = std::move(key);
    return true;
  }
  bool start_object(std::size_t) { return put(Json::object()); }
  bool start_array(std::size_t) { return put(Json::array()); }
  bool end_array() { return leave(), true; }
  bool end_object() {
    std::vector<std::string_view> keys;
    for (const auto& member : open_.back()->get_ref<const Json::object_t&>()) keys.push_back(member.first);
    leave();
    std::ranges::sort(keys);
    const auto twice = std::ranges::adjacent_find(keys);
    if (twice == keys.end()) return true;
    why_ = "duplicate key " + shown(*twice) + " in one object";
    return false;
  }
  bool parse_error(std::size_t byte, const std::string&, const std::exception&) {
    why_ = "invalid JSON at " + place_in(text_, byte, line_);
    return false;
  }

 private:
  template <typename T>
  bool put(T&& value) {
    Json* there = &root_;
    const bool begins_body = body_from_ == 0 && in_body();
    if (open_.empty()) {
      root_ = std::forward<T>(value);
    } else if (open_.back()->is_array()) {
      there = &open_.back()->get_ref<Json::array_t&>().emplace_back(std::forward<T>(value));
    } else {
      auto& members = open_.back()->get_ref<Json::object_t&>();
      there = &members.emplace_back(std::move(key_), Json(std::forward<T>(value))).second;
    }
    // The pointer stays valid: nothing is added to the enclosing value before this one ends.
    if (!there->is_structured()) return true;
    if (begins_body) body_from_ = open_.size();
    open_.push_back(there);
    return true;
  }
  void leave() {
    open_.pop_back();
    if (open_.size() <= body_from_) body_from_ = 0;
  }
  // In the member `body` of the request, or of one of its tasks: its digits are part of a message.
  bool in_body() const {
    return body_from_ > 0 ||
           (!open_.empty() && open_.size() <= 2 && open_.back()->is_object() && key_ == "body");
  }

  Json& root_;
  const std::string_view text_;
  const std::ptrdiff_t line_;
  std::vector<Json*> open_;
  std::size_t body_from_ = 0;  // the size of open_ outside of the body; 0 = we are not in it
  std::string key_, why_ = "invalid JSON";
};

std::string bytes(std::size_t n) { return std::to_string(n) + " bytes"; }

struct Meaning {
  int status = 0;
  std::string_view title, code;
};
constexpr std::array<Meaning, 14> kMeanings = {{{400, "Bad Request", "invalid_request"},
                                                {401, "Unauthorized", "unauthorized"},
                                                {403, "Forbidden", "forbidden"},
                                                {404, "Not Found", "not_found"},
                                                {405, "Method Not Allowed", "method_not_allowed"},
                                                {408, "Request Timeout", "timeout"},
                                                {409, "Conflict", "state_conflict"},
                                                {412, "Precondition Failed", "version_conflict"},
                                                {413, "Content Too Large", "too_large"},
                                                {415, "Unsupported Media Type", "unsupported_media_type"},
                                                {431, "Request Header Fields Too Large", "bad_http"},
                                                {500, "Internal Server Error", "internal_error"},
                                                {501, "Not Implemented", "internal_error"},
                                                {503, "Service Unavailable", "unavailable"}}};

Meaning meaning_of(int status) {
  const auto* found = std::ranges::find(kMeanings, status, &Meaning::status);
  if (found != kMeanings.end()) return *found;
  return {status, "Error", status >= 500 ? "internal_error" : "bad_http"};
}

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

// Why a value is refused, "" = it is not.
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
      return is_cause_id(value) ? "" : "must be the id of a cause, 12 hexadecimal digits as in 9f2c41d07ab3";
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

}  // namespace

JsonMemory memory_of_json(std::string_view text) {
  // A growing vector briefly has its old and its new buffer: three times its content.
  constexpr std::int64_t kGrowth = 3, kHeap = 16;  // kHeap: overhead of an allocation
  constexpr std::int64_t kValue = kGrowth * sizeof(Json);
  constexpr std::int64_t kName = kGrowth * sizeof(std::string);
  constexpr std::int64_t kContainer = sizeof(Json::array_t) + 2 * kHeap + kValue;
  constexpr std::int64_t kText = sizeof(std::string) + kHeap;
  JsonMemory out;
  out.texts = 3 * static_cast<std::int64_t>(text.size());
  outside_strings(text, [&](char c) {
    if (c == '"') out.values += kText;
    if (c == ',') out.values += kValue;
    if (c == ':') out.values += kName;
    if (c == '[' || c == '{') out.values += kContainer;
  });
  return out;
}

std::string place_in(std::string_view text, std::size_t byte, std::ptrdiff_t line) {
  const std::string_view before = text.substr(0, std::max<std::size_t>(byte, 1) - 1);
  const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  return "line " + std::to_string(line + std::ranges::count(before, '\n')) + ", column " +
         std::to_string(column);
}

Result<Json> parse_json(std::string_view text, std::ptrdiff_t line) {
  // Checked before parsing: a megabyte of brackets would become a gigabyte of values.
  if (too_deep(text))
    return permanent("the JSON is nested deeper than " + std::to_string(kDeepestNesting) + " levels");
  Json json;
  Builder builder(json, text, line);
  if (!Json::sax_parse(text, &builder)) return permanent(builder.why());
  return json;
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
    wrong(name, "must be a string");
    return std::nullopt;
  }
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > most) {
    wrong(name, "must be at most " + bytes(most));
    return std::nullopt;
  }
  return text;
}

std::optional<std::string> Fields::name(std::string_view name) {
  auto text = this->text(name, kNameBytes);
  if (text && text->find('\0') != std::string::npos) {
    wrong(name, "must not contain a NUL byte");
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
  wrong(name, "must be an integer from " + std::to_string(least) + " to " + std::to_string(most));
  return std::nullopt;
}

std::optional<double> Fields::number(std::string_view name, double least, double most) {
  const Json* value = get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (std::isfinite(number) && number >= least && number <= most) return number;
  }
  wrong(name, "must be a number from " + std::to_string(static_cast<std::int64_t>(least)) + " to " +
                  std::to_string(static_cast<std::int64_t>(most)));
  return std::nullopt;
}

std::optional<bool> Fields::flag(std::string_view name) {
  const Json* value = get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  wrong(name, "must be true or false");
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
  wrong(name, "must be a duration from " + levels::format_duration(least) +
                  " to 3650d: \"30m\", \"1h30m\", or an integer number of milliseconds");
  return std::nullopt;
}

std::optional<EpochMs> Fields::time(std::string_view name) {
  const Json* value = get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) {
    if (const auto t = from_rfc3339(value->get_ref<const std::string&>())) return t;
  }
  wrong(name, "must be an RFC 3339 time, e.g. \"2026-11-21T17:05:00Z\"");
  return std::nullopt;
}

std::optional<Silence> Fields::silence(std::string_view name) {
  const Json* value = get(name);
  if (value == nullptr) return std::nullopt;
  constexpr const char* kForm = "must be {\"presumed_after\": \"10m\"} or {\"reported_within\": \"5m\"}";
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
  if (!told) wrong(name, std::string(kForm) + ", exactly one of the two");
  return std::nullopt;
}

Target Fields::target(const TargetRules& rules) {
  Target target;
  target.queue = name("queue").value_or("");
  target.exchange = name("exchange").value_or("");
  target.routing_key = name("routing_key").value_or("");
  if (!target.queue.empty() && (!target.exchange.empty() || !target.routing_key.empty()))
    wrong("queue", "cannot be combined with exchange or routing_key");
  if (std::string why = refused_target(target, rules); !why.empty())
    wrong(!target.queue.empty()      ? "queue"
          : !target.exchange.empty() ? "exchange"
                                     : "routing_key",
          std::move(why));
  return target;
}

void Fields::finish() {
  std::string list;
  for (const std::string_view known : known_) list.append(list.empty() ? "" : ", ").append(known);
  std::size_t told = 0;
  for (const auto& [name, value] : object_.items()) {
    if (std::ranges::find(known_, name) != known_.end()) continue;
    if (++told > kMostTold) break;
    errors_.insert(errors_.begin() + static_cast<std::ptrdiff_t>(first_),
                   {prefix_ + clean_utf8(name, 60), "unknown field; known fields: " + list});
  }
}

void Fields::check() {
  finish();
  if (!errors_.empty()) throw Problem(errors_);
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json text_or_null(std::string_view text) { return text.empty() ? Json() : Json(text); }
Json time_or_null(const std::optional<EpochMs>& time) { return time ? Json(to_rfc3339(*time)) : Json(); }
Json ms_or_null(const std::optional<Ms>& duration) { return duration ? Json(duration->count()) : Json(); }

void read_target(std::string_view target, Request& request) {
  const std::size_t question = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(0, question);
  request.has_encoded_slash =
      path.find("%2f") != std::string_view::npos || path.find("%2F") != std::string_view::npos;
  request.path = path.empty() ? "/" : path;
  if (!request.has_encoded_slash) request.path = percent_decode(request.path).value_or(request.path);
  static const RE2 pair("&*(?:([^&=]+)=?|=)([^&]*)&*", RE2::Latin1);
  const std::string_view query = target.substr(std::min(question + 1, target.size()));
  std::string written_name, written_value;
  for (re2::StringPiece rest(query.data(), query.size());
       RE2::Consume(&rest, pair, &written_name, &written_value);) {
    auto name = percent_decode(written_name, true), value = percent_decode(written_value, true);
    if (!name || !value)
      throw Problem(400, "invalid percent-encoding in the query: a % is followed by two hexadecimal digits");
    request.query.emplace_back(*std::move(name), *std::move(value));
  }
}

std::string decode_segment(std::string_view segment, const Request& request) {
  if (!request.has_encoded_slash) return std::string(segment);
  return percent_decode(segment).value_or(std::string(segment));
}

bool is_host(std::string_view text) {
  static const RE2 host(R"(([A-Za-z0-9._~-]+|\[[A-Za-z0-9._~:-]+\])(:[0-9]{0,5})?)", RE2::Latin1);
  return RE2::FullMatch({text.data(), text.size()}, host);
}

std::string cookie_named(std::string_view name, std::string_view header) {
  while (!header.empty()) {
    std::string_view pair = header.substr(0, header.find(';'));
    header.remove_prefix(std::min(pair.size() + 1, header.size()));
    pair.remove_prefix(std::min(pair.find_first_not_of(' '), pair.size()));
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('='))
      return std::string(pair.substr(name.size() + 1));
  }
  return "";
}

std::string_view title_of(int status) { return meaning_of(status).title; }
std::string_view code_of(int status) { return meaning_of(status).code; }

Problem::Problem(const FieldErrors& errors) : Problem(400, "", {{"errors", Json::array()}}) {
  if (!errors.empty()) detail = errors.front().field + ": " + errors.front().detail;
  if (errors.size() > 1) detail += " (and " + std::to_string(errors.size() - 1) + " more, see errors)";
  for (const FieldError& e : errors) more["errors"].push_back({{"field", e.field}, {"detail", e.detail}});
}

Problem::Problem(Error of)
    : Problem(of.is_transient()                   ? 503
              : of.kind == Error::Kind::not_found ? 404
                                                  : 500,
              of.message) {
  error = std::move(of);
}

Json Problem::json(std::string_view instance) const {
  Json json = {{"title", title_of(status)},
               {"status", status},
               {"code", code_of(status)},
               {"detail", detail},
               {"instance", instance}};
  if (more.is_object()) json.update(more);
  return json;
}

Response problem(const Problem& of, std::string_view instance) {
  Response response = answer(of.status, of.json(instance), of.headers);
  response.type = "application/problem+json";
  if (of.status == 503 && of.headers.empty()) response.headers.emplace_back("Retry-After", "1");
  response.error = of.error;
  return response;
}

Response answer(int status, const Json& json, Pairs headers) {
  Response response;
  response.status = status;
  response.headers = std::move(headers);
  response.body = escape_controls_in_json(dump(json)) + "\n";
  return response;
}

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
