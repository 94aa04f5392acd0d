#include "src/cli/service/api.h"

#include <algorithm>
#include <utility>

#include "src/api/base/message.h"
#include "src/core/base/hex.h"
#include "src/core/base/utf8.h"

namespace rung::cli {
namespace {

constexpr std::size_t kMostShown = 4000;  // bytes of a text that the server writes for people
constexpr std::size_t kMostPages = 10'000, kMostRows = 1'000'000;

}  // namespace

const Json& part_of(const Json& json, std::string_view name) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(name);
  return found == json.end() ? kNull : *found;
}

std::string text_of(const Json& json, std::string_view name) {
  const Json& value = part_of(json, name);
  return value.is_string() ? value.get<std::string>() : std::string();
}

double real_of(const Json& json, std::string_view name) {
  const Json& value = part_of(json, name);
  return value.is_number() ? value.get<double>() : 0;
}

std::int64_t number_of(const Json& json, std::string_view name) {
  constexpr double kMost = 1LL << 52;  // sums of some fit, and times of so many ms
  const double value = real_of(json, name);
  return value > -kMost && value < kMost ? static_cast<std::int64_t>(value) : 0;
}

bool flag_of(const Json& json, std::string_view name) {
  const Json& value = part_of(json, name);
  return value.is_boolean() && value.get<bool>();
}

std::optional<EpochMs> time_of(const Json& json, std::string_view name) {
  return from_rfc3339(text_of(json, name));
}

State state_of(const Json& task) { return from_word<State>(text_of(task, "state")).value_or(State::unknown); }

std::string Answer::text(std::string_view member) const {
  return clean_utf8(text_of(json, member), kMostShown);
}

std::string option_for(std::string_view member) {
  // What the option is called where the member is not.
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"filter.", ""},
      {"elsewhere.", "to-"},
      {"set_headers", "set-header"},
      {"body_base64", "body"},
      {"unset_headers", "unset-header"}};
  std::string flag(member);
  for (const auto& [of, begin] : kNames) {
    if (flag.starts_with(of)) flag.replace(0, of.size(), begin);
  }
  // The name of a header stays as it is.
  if (flag.starts_with(api::kHeaderParam)) return "--header " + flag.substr(api::kHeaderParam.size());
  std::ranges::replace(flag, '_', '-');
  return "--" + flag;
}

Error error_of(const Answer& answer, const std::function<std::string(std::string_view)>& name) {
  std::string what;
  for (const Json& one : part_of(answer.json, "errors")) {
    const std::string member = name(text_of(one, "field"));
    what += (what.empty() ? "" : "; ") + (member.empty() ? "" : member + ": ") + text_of(one, "detail");
  }
  return {answer.status == 404 ? Error::Kind::not_found : Error::Kind::permanent,
          what.empty() ? answer.text("detail") : clean_utf8(what, kMostShown)};
}

Result<Json> Api::good(Result<Answer> answer) {
  if (!answer) return tl::unexpected(answer.error());
  if (!answer->good()) return tl::unexpected(error_of(*answer));
  return std::move(answer->json);
}

Result<EpochMs> Api::now() {
  const auto json = get("/v1/now");
  if (!json && json.error().kind == Error::Kind::not_found)
    return tl::unexpected(strange("not of this release: it is older than this program"));
  if (!json) return tl::unexpected(json.error());
  const auto now = time_of(*json, "now");
  if (!now) return tl::unexpected(strange("not as Rung writes it: now.now"));
  return *now;
}

std::string with_query(std::string path, const Parameters& parameters) {
  char before = '?';
  for (const auto& [name, value] : parameters) {
    if (value.empty()) continue;
    path += before + percent_encode(name) + "=" + percent_encode(value);
    before = '&';
  }
  return path;
}

Result<Json> read_page(Api& api, const std::string& path, Parameters parameters, const char* list,
                       std::size_t limit, const std::string& cursor) {
  limit = std::min(limit, kRowsAPage);
  parameters.emplace_back("limit", std::to_string(limit));
  parameters.emplace_back("cursor", cursor);
  auto page = api.get(with_query(path, parameters));
  if (!page) return page;
  const Json& rows = part_of(*page, list);
  if (!rows.is_array()) return tl::unexpected(api.strange(std::string("not as Rung writes it: ") + list));
  if (rows.size() > limit) return tl::unexpected(api.strange("a page that is longer than asked for"));
  const std::string next = text_of(*page, "next");
  if (!next.empty() && next == cursor) return tl::unexpected(api.strange("a page that leads to itself"));
  return page;
}

Result<Json> read_rows(Api& api, const std::string& path, const Parameters& parameters, const char* list,
                       std::size_t most, std::string cursor) {
  Json rows = Json::array();
  for (std::size_t pages = 0; pages < kMostPages; ++pages) {
    auto page = read_page(api, path, parameters, list, most - rows.size(), cursor);
    if (!page) return page;
    for (Json& row : (*page)[list]) rows.push_back(std::move(row));
    cursor = text_of(*page, "next");
    if (cursor.empty() || rows.size() >= most) {
      (*page)[list] = std::move(rows);
      return page;
    }
    if (rows.size() >= kMostRows) return tl::unexpected(api.strange("a list of more than a million rows"));
  }
  return tl::unexpected(api.strange("a list without an end"));
}

}  // namespace rung::cli
