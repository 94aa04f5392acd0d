// The query of a request, by the parameters of its route. Thread: values.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/json/fields.h"
#include "src/api/json/param.h"
#include "src/api/tasks/pages.h"
#include "src/http/request/message.h"

namespace rung::http {

class Query {
 public:
  Query() = default;
  // Unknown, repeated and wrong parameters go to `errors`.
  Query(const Pairs& given, std::span<const api::Param> params, api::FieldErrors& errors);

  // The value of a parameter that is not there: "", none, false. REQUIRES, here and below: no errors.
  std::string text(std::string_view name) const;
  std::optional<EpochMs> time(std::string_view name) const;
  bool flag(std::string_view name) const { return text(name) == "true"; }
  std::vector<std::string> words(std::string_view name) const { return api::split_words(text(name)); }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  api::Page page() const;
  const Pairs& all() const { return given_; }

 private:
  const std::string* find(std::string_view name) const;

  Pairs given_;
};

}  // namespace rung::http
