// A YAML text as a plain tree with places. The only file that sees yaml-cpp is document.cc.
// Thread: parse_document is pure but for the environment; a Node is a value.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/config/config.h"

namespace rung::confile {

struct Mark {
  int line = 0, column = 0;  // from 1; 0 = nowhere in particular
};

struct Entry;

struct Node {
  enum class Kind { nothing, text, list, map };
  Kind kind = Kind::nothing;
  Mark mark;
  std::string text;          // kind text: after ${NAME} was put in
  std::string written;       // kind text: as the file has it
  bool substituted = false;  // a ${NAME} was put in: the text may be a secret and is never quoted
  bool invalid = false;      // a problem of it was told already: say no more about it
  std::vector<Node> items;
  std::vector<Entry> entries;  // in the file's order, repeated keys included
};

// One "key: value" of a map.
struct Entry {
  Node key, value;
};

// What is wrong with one file, gathered.
class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}
  void add(Mark at, std::string what) { found_.push_back({file_, at.line, at.column, std::move(what)}); }
  void warn(Mark at, std::string what) { warnings_.push_back({file_, at.line, at.column, std::move(what)}); }
  const std::string& file() const { return file_; }
  bool empty() const { return found_.empty(); }
  std::size_t count() const { return found_.size(); }
  // In the order of the file; what concerns no place in it comes last.
  std::vector<ConfigProblem> take();
  std::vector<ConfigProblem> take_warnings();

 private:
  std::string file_;
  std::vector<ConfigProblem> found_, warnings_;
};

// None where the text is not YAML at all (a problem says where). An empty text is a Node of kind nothing.
// `unused`: tells of a key's path ("store", "groups.eu.store") that the variables below it need not be set. A
// value with one that is not set is broken, without a problem.
using Unused = std::function<bool(std::string_view path)>;
std::optional<Node> parse_document(std::string_view text, Problems& problems, Unused unused = {});

// `text` with each ${NAME} from the environment; "$${" stands for "${". `substituted` tells whether one was
// there.
struct Substitution {
  std::string text;
  bool substituted = false;
  std::string problem;  // names the variable that is not set, or says what is wrong with the ${
};
Substitution substitute(std::string_view text);

// For quoting in a problem: printable, at most 60 bytes, in double quotes.
std::string in_quotes(std::string_view text);

// The candidate that `word` was most likely meant to be; "" where none is close.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace rung::confile
