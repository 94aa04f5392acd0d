// Parses YAML into a tree with positions. Only document.cc uses yaml-cpp.
// Thread: parse_document only reads the environment; a Node is a value.
#pragma once

#include <algorithm>
#include <any>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/config/config.h"

namespace rung::confile {

struct Mark {
  int line = 0, column = 0;  // from 1; 0 = no position
};

struct Entry;
struct Key;  // load.h

struct Node {
  enum class Kind { nothing, text, list, map };
  Kind kind = Kind::nothing;
  Mark mark;
  std::string text;          // kind text: after substitution of ${NAME}
  std::string written;       // kind text: as in the file
  bool substituted = false;  // it contains a ${NAME}: the text may be secret and is never quoted
  std::string unset;         // why a ${NAME} in it has no value: walk() reports that, if the value is needed
  bool invalid = false;      // its error, or one below it, is reported, or need not be
  std::vector<Node> items;
  std::vector<Entry> entries;  // in the file's order
  std::string path;            // once it is read: "queues.orders.ladder"; "" = the root
  const Key* row = nullptr;    // the table's, that has read it
  std::any value;              // what that made of it

  // Of a key below it; its own for "".
  std::string path_of(std::string_view key) const;
  // Below a map: "success.presumed_after", or itself (""). nullptr: it is not there.
  const Node* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  // It is there, without errors.
  bool valid(std::string_view key) const;
  // Its place; that of this node where it is not there.
  Mark mark_at(std::string_view key) const;
  const std::vector<Node>& items_at(std::string_view key) const;
  const std::vector<Entry>& entries_at(std::string_view key) const;
  // Its value; nullopt: it is not there, or invalid.
  template <typename T>
  std::optional<T> get(std::string_view key = {}) const {
    const T* const found = valid(key) ? std::any_cast<T>(&find(key)->value) : nullptr;
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  // The same, empty where there is none.
  std::string text_at(std::string_view key) const { return get<std::string>(key).value_or(""); }
  std::vector<std::string> texts_at(std::string_view key) const {
    return get<std::vector<std::string>>(key).value_or(std::vector<std::string>());
  }
};

// One "key: value" of a map.
struct Entry {
  Node key, value;
};

// Collects the errors and warnings of one file.
class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}
  void add(Mark at, std::string what) { found_.push_back({file_, at.line, at.column, std::move(what)}); }
  // The errors of another file.
  void add_all(Problems& of) { std::ranges::move(of.take(), std::back_inserter(found_)); }
  void warn(Mark at, std::string what) { warnings_.push_back({file_, at.line, at.column, std::move(what)}); }
  const std::string& file() const { return file_; }
  bool empty() const { return found_.empty(); }
  std::size_t count() const { return found_.size(); }
  // In the order of the file; problems without a position come last.
  std::vector<ConfigProblem> take();
  std::vector<ConfigProblem> take_warnings();

 private:
  std::string file_;
  std::vector<ConfigProblem> found_, warnings_;
};

// nullopt if the text is not YAML (a problem says where). An empty text is a Node of kind nothing.
std::optional<Node> parse_document(std::string_view text, Problems& problems);

// Quoted for a message: without control characters, at most 60 bytes, in double quotes.
std::string in_quotes(std::string_view text);

// "a, b, c"
std::string joined(const std::vector<std::string>& words);

// The candidate closest to `word`; "" if none is close.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);
// ": did you mean CANDIDATE?"; `otherwise` if none is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         const std::string& otherwise = {});

}  // namespace rung::confile
