#include "src/config/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <tuple>

#include "src/core/base/utf8.h"

namespace rung::confile {
namespace {

// No hand-written file has more nodes: most likely nested aliases.
constexpr int kMostNodes = 50'000;
constexpr int kDeepest = 20;

// Replaces each ${NAME} in a value by the environment variable; "$${" is a literal "${".
void substitute(Node& node) {
  constexpr std::string_view kDigits = "0123456789",
                             kOfNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  node.text.clear();
  for (std::string_view text = node.written;;) {
    const auto at = text.find("${");
    if (at != std::string_view::npos && at > 0 && text[at - 1] == '$') {
      node.text.append(text.substr(0, at - 1)).append("${");
      text.remove_prefix(at + 2);
      continue;
    }
    node.text += text.substr(0, at);
    if (at == std::string_view::npos) return;
    const auto close = text.find('}', at);
    const std::string name(text.substr(at + 2, close == std::string_view::npos ? 0 : close - at - 2));
    const char* value = std::getenv(name.c_str());  // NOLINT: this program never changes its environment
    if (name.empty() || kDigits.find(name[0]) != std::string_view::npos ||
        name.find_first_not_of(kOfNames) != std::string::npos) {
      node.unset = "invalid ${: write ${NAME}, e.g. ${RUNG_PASSWORD}; for a literal ${ write $${";
    } else if (value == nullptr) {
      node.unset = "environment variable " + name + " is not set: set it, or write the value here";
    }
    node.invalid = !node.unset.empty();
    if (node.invalid) return;
    node.text += value;
    node.substituted = true;
    text.remove_prefix(close + 1);
  }
}

Mark mark_of(const YAML::Mark& at) { return {at.line + 1, at.column + 1}; }

struct Converter {
  Problems& problems;
  int nodes = 0;

  Node convert(const YAML::Node& from, Mark fallback, int depth, bool is_key = false) {
    Node to;
    const YAML::Mark mark = from.Mark();
    // A missing value has no useful position: report its key's.
    to.mark = from.IsNull() || mark.is_null() ? fallback : mark_of(mark);
    if (++nodes > kMostNodes) throw YAML::Exception(mark, "too large for a configuration file");
    if (depth > kDeepest) throw YAML::Exception(mark, "nested too deeply");
    if (from.IsScalar()) {
      to.kind = Node::Kind::text;
      to.text = to.written = from.Scalar();
      if (!is_key) substitute(to);
    } else if (from.IsSequence()) {
      to.kind = Node::Kind::list;
      for (const auto& item : from) to.items.push_back(convert(item, to.mark, depth + 1));
    } else if (from.IsMap()) {
      to.kind = Node::Kind::map;
      std::vector<Node> merged;
      for (const auto& entry : from) {
        Node key = convert(entry.first, to.mark, depth + 1, true);
        if (key.text == "<<" && entry.first.Tag() != "!") {
          merged.push_back(convert(entry.second, key.mark, depth + 1));
        } else {
          Node value = convert(entry.second, key.mark, depth + 1);
          to.entries.push_back({std::move(key), std::move(value)});
        }
      }
      for (Node& source : merged) merge(std::move(source), to);
    }
    return to;
  }

  // `<<: *anchor`, or a list of them: the keys that `to` has not itself; of several sources the first counts.
  void merge(Node source, Node& to) {
    if (source.kind == Node::Kind::list) {
      for (Node& item : source.items) merge(std::move(item), to);
    } else if (source.kind == Node::Kind::map) {
      for (Entry& entry : source.entries) {
        const auto is_it = [&](const Entry& own) { return own.key.text == entry.key.text; };
        if (std::ranges::none_of(to.entries, is_it)) to.entries.push_back(std::move(entry));
      }
    } else {
      problems.add(source.mark,
                   "<<: expected keys to merge: write <<: *NAME, with the anchor &NAME before "
                   "the keys elsewhere");
    }
  }
};

// yaml-cpp's error, and its most likely cause.
std::string explain(const YAML::Exception& error, std::string_view text) {
  // After a colon yaml-cpp quotes a piece of the text, which can be part of a password.
  std::string what = "not YAML: " + error.msg.substr(0, error.msg.find(':'));
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int n = 0; n <= error.mark.line; ++n) {
    line.clear();  // it stays empty behind the end
    std::getline(lines, line);
  }
  if (line.find("${") != std::string::npos) {
    what += "; inside { } or [ ], ${NAME} needs quotes: \"${NAME}\"";
  } else if (line.find('\t') != std::string::npos) {
    what += "; indent with spaces, not tabs";
  } else if (what.find("anchor") != std::string::npos || what.find("alias") != std::string::npos) {
    what += "; a text that begins with * needs quotes: \"*\"";
  }
  return what;
}

// Records where the last document starts.
class DocumentStarts : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { last = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}

  YAML::Mark last;
};

// Where a second document starts. Not YAML::LoadAll: for a text like "," it finds endless documents until
// memory is exhausted (0.7).
std::optional<YAML::Mark> second_document(const std::string& input) {
  std::istringstream in(input);
  YAML::Parser parser(in);
  DocumentStarts starts;
  if (!parser.HandleNextDocument(starts) || !parser.HandleNextDocument(starts)) return std::nullopt;
  return starts.last;
}

std::vector<ConfigProblem> in_order(std::vector<ConfigProblem> problems) {
  const auto place = [](const ConfigProblem& p) { return std::tuple(p.line == 0, p.line, p.column); };
  std::ranges::stable_sort(problems, [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return problems;
}
}  // namespace

std::string Node::path_of(std::string_view key) const {
  return path + (path.empty() || key.empty() ? "" : ".") + std::string(key);
}

const Node* Node::find(std::string_view key) const {
  if (key.empty()) return this;
  const auto dot = key.find('.');
  const auto at = std::ranges::find(entries, key.substr(0, dot),
                                    [](const Entry& entry) -> std::string_view { return entry.key.text; });
  if (at == entries.end()) return nullptr;
  return at->value.find(dot == std::string_view::npos ? "" : key.substr(dot + 1));
}

bool Node::valid(std::string_view key) const {
  const Node* const node = find(key);
  return node != nullptr && !node->invalid;
}

Mark Node::mark_at(std::string_view key) const {
  const Node* const node = find(key);
  return node != nullptr ? node->mark : mark;
}

const std::vector<Node>& Node::items_at(std::string_view key) const {
  static const std::vector<Node> none;
  const Node* const node = find(key);
  return node != nullptr ? node->items : none;
}

const std::vector<Entry>& Node::entries_at(std::string_view key) const {
  static const std::vector<Entry> none;
  const Node* const node = find(key);
  return node != nullptr ? node->entries : none;
}

std::vector<ConfigProblem> Problems::take() { return in_order(std::move(found_)); }
std::vector<ConfigProblem> Problems::take_warnings() { return in_order(std::move(warnings_)); }

std::optional<Node> parse_document(std::string_view text, Problems& problems) {
  try {
    const std::string input(text);
    const auto second = second_document(input);
    if (!second) return Converter{problems}.convert(YAML::Load(input), {}, 0);
    problems.add(mark_of(*second), "unexpected second YAML document: a config file has only one");
  } catch (const YAML::ParserException& error) {
    problems.add(mark_of(error.mark), explain(error, text));
  } catch (const YAML::Exception& error) {  // the converter's
    problems.add(mark_of(error.mark), error.msg);
  } catch (const std::exception& error) {
    problems.add({}, std::string("not YAML: ") + error.what());
  }
  return std::nullopt;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 60;
  return "\"" + escape_controls(clean_utf8(text, kMost)) + (text.size() > kMost ? "...\"" : "\"");
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  const auto plain = [](std::string_view text) {
    std::string out;
    for (const char c : text)
      out += c == '-' ? '_' : (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    return out;
  };
  // Levenshtein's: two letters that changed places count as two.
  const auto distance = [](const std::string& a, const std::string& b) {
    std::vector<std::size_t> last(b.size() + 1), row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
      row[0] = i;
      for (std::size_t j = 1; j <= b.size(); ++j)
        row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      last = row;
    }
    return last[b.size()];
  };
  const std::string wanted = plain(word.substr(0, 64));
  std::string best;
  std::size_t least = wanted.size() / 3 + 2;  // accept errors in up to a third of the word, plus one
  for (const auto& candidate : candidates) {
    const std::string other = plain(candidate);
    if (wanted.size() >= 3 && other.starts_with(wanted)) return candidate;  // a prefix
    const auto d = distance(wanted, other);
    if (d < least && d < std::max(wanted.size(), other.size())) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         const std::string& otherwise) {
  const std::string near = closest(word, candidates);
  return near.empty() ? otherwise : ": did you mean " + near + "?";
}

}  // namespace rung::confile
