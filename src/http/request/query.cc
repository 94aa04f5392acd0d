#include "src/http/request/query.h"

#include <algorithm>

#include "src/core/base/time.h"
#include "src/core/base/utf8.h"

namespace rung::http {
namespace {

std::string unknown_among(std::span<const api::Param> params) {
  std::string names;
  for (const api::Param& one : params) {
    if (one.is == api::Param::Is::header) continue;
    names.append(names.empty() ? "" : ", ")
        .append(one.is == api::Param::Is::headers ? "header.NAME" : one.name);
  }
  return names.empty() ? "unknown parameter: there are none here"
                       : "unknown parameter; known parameters: " + names;
}

}  // namespace

Query::Query(const Pairs& given, std::span<const api::Param> params, api::FieldErrors& errors) {
  for (const auto& [name, value] : given) {
    if (errors.size() > api::kMostTold) return;
    const auto param = std::ranges::find_if(
        params, [&known = name](const api::Param& one) { return api::is_named(one, known); });
    std::string wrong;
    if (param == params.end() || param->is == api::Param::Is::header) {
      wrong = unknown_among(params);
    } else if (find(name) != nullptr) {
      wrong = "given twice";
    } else {
      wrong = api::wrong_value(*param, value);
    }
    if (!wrong.empty()) errors.push_back({clean_utf8(name, 60), std::move(wrong)});
    given_.emplace_back(name, value);
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
  return value != nullptr ? from_rfc3339(api::written_time(*value)) : std::nullopt;
}

api::Page Query::page() const {
  api::Page page;
  if (const std::string* const limit = find("limit")) page.limit = std::stoi(*limit);
  page.cursor = text("cursor");
  return page;
}

}  // namespace rung::http
