// Validates responses against the OpenAPI document; supports only what that document uses of JSON Schema.
// Thread: pure.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace rung::test {

using nlohmann::json;

class OpenApi {
 public:
  explicit OpenApi(json document) : document_(std::move(document)) {}

  // The template of a path: "/v1/tasks/5" -> "/v1/tasks/{id}"; "" if there is none.
  std::string path_of(std::string path) const {
    path = path.substr(0, path.find('?'));
    for (const auto& [pattern, operations] : document_.at("paths").items()) {
      const std::size_t at = pattern.find('{');
      if (at == std::string::npos ? pattern == path : fits(pattern, at, path)) return pattern;
    }
    return "";
  }

  // The first violation in a response; "" = none.
  std::string check(const std::string& method, const std::string& path, int status, const std::string& type,
                    const json& body) const {
    const std::string pattern = path_of(path);
    if (pattern.empty())
      return status == 404 || status == 401 || status == 403 ? "" : "not in the document: " + path;
    const json& item = document_.at("paths").at(pattern);
    std::string lower;
    for (const char c : method) lower += static_cast<char>(std::tolower(c));
    if (!item.contains(lower))
      return status == 405 || status == 401 || status == 403 ? "" : "no such method: " + method;
    const json& responses = item.at(lower).at("responses");
    if (!responses.contains(std::to_string(status)))
      return method + " " + pattern + ": status " + std::to_string(status) + " is not in the document";
    const json& content = resolve(responses.at(std::to_string(status))).at("content");
    const std::string media = type.substr(0, type.find(';'));
    if (!content.contains(media)) return pattern + ": media type " + media + " is not in the document";
    if (media == "text/plain" || media == "application/octet-stream") return "";
    return check(content.at(media).at("schema"), body, pattern);
  }

  std::string check(const json& written, const json& value, const std::string& where) const {
    const json& schema = resolve(written);
    if (schema.contains("oneOf")) {
      std::string all;
      for (const json& one : schema.at("oneOf")) {
        const std::string wrong = check(one, value, where);
        if (wrong.empty()) return "";
        all += "\n  " + wrong;
      }
      return where + ": none of these:" + all;
    }
    if (schema.contains("const") && value != schema.at("const"))
      return where + ": not " + schema.at("const").dump();
    if (schema.contains("enum") && std::ranges::find(schema.at("enum"), value) == schema.at("enum").end())
      return where + ": " + value.dump() + " is not in " + schema.at("enum").dump();
    if (schema.contains("type") && !is(schema.at("type"), value))
      return where + ": " + value.dump().substr(0, 200) + " is not " + schema.at("type").dump();
    if (value.is_array() && schema.contains("items")) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (auto w = check(schema.at("items"), value[i], where + "[" + std::to_string(i) + "]"); !w.empty())
          return w;
      }
    }
    return value.is_object() ? check_object(schema, value, where) : "";
  }

 private:
  static bool fits(const std::string& pattern, std::size_t at, const std::string& path) {
    const std::string before = pattern.substr(0, at), after = pattern.substr(pattern.find('}') + 1);
    if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after))
      return false;
    return path.substr(at, path.size() - before.size() - after.size()).find('/') == std::string::npos;
  }

  const json& resolve(const json& node) const {
    if (!node.contains("$ref")) return node;
    return resolve(document_.at(json::json_pointer(node.at("$ref").get<std::string>().substr(1))));
  }

  static bool is(const json& type, const json& value) {
    if (type.is_array()) return std::ranges::any_of(type, [&](const json& one) { return is(one, value); });
    const auto& t = type.get_ref<const std::string&>();
    return (t == "string" && value.is_string()) || (t == "integer" && value.is_number_integer()) ||
           (t == "number" && value.is_number()) || (t == "boolean" && value.is_boolean()) ||
           (t == "object" && value.is_object()) || (t == "array" && value.is_array()) ||
           (t == "null" && value.is_null());
  }

  std::string check_object(const json& schema, const json& value, const std::string& where) const {
    for (const json& name : schema.value("required", json::array())) {
      if (!value.contains(name.get<std::string>())) return where + ": " + name.dump() + " is missing";
    }
    const json none = json::object();
    const json& properties = schema.contains("properties") ? schema.at("properties") : none;
    for (const auto& [name, inner] : value.items()) {
      if (properties.contains(name)) {
        if (auto wrong = check(properties.at(name), inner, where + "." + name); !wrong.empty()) return wrong;
      } else if (schema.contains("additionalProperties") && schema.at("additionalProperties") == false) {
        return where + ": " + name + " is not in the document";
      }
    }
    return "";
  }

  const json document_;
};

}  // namespace rung::test
