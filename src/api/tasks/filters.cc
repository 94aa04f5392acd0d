#include "src/api/tasks/filters.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "src/core/base/rfc3339.h"

namespace rung::api {
namespace {

// Splits a command line written by shell_quote(): plain, 'quoted', or $'quoted' with octal escapes.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false, in_quotes = false, octal = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ' && !in_quotes) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == '\'') {
      in_quotes = !in_quotes;
    } else if (c == '$' && !in_quotes && text.substr(i + 1).starts_with('\'')) {
      octal = in_quotes = true;
      ++i;
      continue;
    } else if (c == '\\' && in_quotes && octal && i + 3 < text.size() && text[i + 1] >= '0' &&
               text[i + 1] <= '3') {
      words.back() +=
          static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else if (c == '\\' && (!in_quotes || octal) && i + 1 < text.size()) {
      words.back() += text[++i];
    } else {
      words.back() += c;
    }
    octal = octal && in_quotes;
  }
  return words;
}

}  // namespace

Json filter_of_text(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_object()) return json;
  json = Json::object();
  const std::vector<std::string> words = words_of(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string name = words[i].substr(std::min(words[i].find_first_not_of('-'), words[i].size()));
    std::ranges::replace(name, '-', '_');
    if (name == "silence_held") {
      json[name] = "true";  // the only one without a value
      continue;
    }
    if (++i == words.size()) break;
    const std::size_t equals = words[i].find('=');
    if (name == "header" && equals != std::string::npos) {
      json["header." + words[i].substr(0, equals)] = words[i].substr(equals + 1);
    } else {
      json[name] = words[i];
    }
  }
  return json;
}

Json filter_json(const Filter& f) {
  Json json = Json::object();
  const auto text = [&](const std::string& name, std::string_view value) {
    if (!value.empty()) json[name] = value;
  };
  const auto time = [&](const char* name, const std::optional<EpochMs>& at) {
    if (at) json[name] = to_rfc3339(*at);
  };
  text("queue", f.queue);
  text("exchange", f.exchange);
  std::string states(f.state ? to_word(*f.state) : "");
  for (const State state : f.states) states.append(states.empty() ? "" : ",").append(to_word(state));
  text("state", states);
  text("kind", f.kind ? to_word(*f.kind) : "");
  text("tag", f.tag);
  text("message_id", f.message_id);
  text("correlation_id", f.correlation_id);
  for (const auto& [name, value] : f.headers) text("header." + name, value);
  text("ladder", f.ladder);
  text("error", f.error_matches ? f.error_matches->text() : f.error_contains);
  text("error_type", f.error_type);
  text("cause", f.cause);
  time("due_before", f.due_before);
  time("due_after", f.due_after);
  time("first_failed_after", f.first_failed_after);
  time("first_failed_before", f.first_failed_before);
  time("created_after", f.created_after);
  time("created_before", f.created_before);
  if (f.silence_held) json["silence_held"] = "true";
  return json;
}

}  // namespace rung::api
