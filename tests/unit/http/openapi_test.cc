// The OpenAPI document, and the table of routes that it is made of.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "src/api/api.h"
#include "src/http/api.h"

namespace rung::http {
namespace {

using api::Action;
using api::Json;

TEST(OpenApi, EachRouteHasItsTextsAndIsForTheRightRoles) {
  const Json document = Json::parse(openapi_document());
  std::set<std::string> ids, written;
  for (const Route& route : all_routes()) {
    const std::string id(route.id);
    EXPECT_TRUE(!id.empty() && std::islower(id.front()) != 0 && std::ranges::all_of(id, [](char c) {
      return std::isalnum(c) != 0;
    })) << route.pattern;
    EXPECT_TRUE(ids.insert(id).second) << id << " stands there twice";
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(std::tolower(c));
    const Json& operation = document.at("paths").at(std::string(route.pattern)).at(method);
    EXPECT_FALSE(operation.at("summary").get<std::string>().empty()) << id;
    // Exactly the operations that need no token say so.
    const api::Right& right = api::right_of(route.action);
    const bool is_open = route.action == Action::probe;
    EXPECT_EQ(operation.contains("security"), is_open) << id;
    EXPECT_EQ(operation.value("x-needs-role", ""), is_open ? "" : to_word(right.least)) << id;
    const bool asks = route.pattern == "/v1/simulate";  // changes nothing; a body can be long
    EXPECT_TRUE(is_open || asks || route.method != "POST" || right.least > Role::reads) << id;
    EXPECT_TRUE(route.method != "GET" || !right.by_queue || route.action == Action::body)
        << id << ": a read concerns all queues";
  }
  const Json file = Json::parse(api::openapi_json());
  for (const auto& [id, texts] : file.at("operations").items()) written.insert(id);
  EXPECT_EQ(written, ids);
}

TEST(OpenApi, EachReferenceHasItsTarget) {
  const Json document = Json::parse(openapi_document());
  const std::string text = document.dump(), mark = "\"$ref\":\"#";
  std::set<std::string> used;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const std::size_t from = at + mark.size();
    used.insert(text.substr(from, text.find('"', from) - from));
  }
  for (const std::string& pointer : used)
    EXPECT_TRUE(document.contains(Json::json_pointer(pointer))) << pointer;
  for (const auto& [name, schema] : document.at("components").at("schemas").items())
    EXPECT_TRUE(used.contains("/components/schemas/" + name)) << name << " is not used";
}

}  // namespace
}  // namespace rung::http
