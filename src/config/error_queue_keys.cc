// The part of the key table about error queues.
#include "src/config/draft.h"

namespace rung::confile {
namespace {

constexpr std::size_t kLongestWord = 64;

ErrorQueueDraft& error_queue(Value& v) { return v.draft.error_queues.back(); }

// The position of a value, for errors that involve several keys.
void note_place(Value& v, Mark& mark) {
  mark = v.node.mark;
  error_queue(v).substituted = error_queue(v).substituted || v.node.substituted;
}

bool set_queue_name(Value& v, std::optional<std::string>& out, Mark& mark) {
  note_place(v, mark);
  return v.optional(out, &Value::amqp_name);
}

bool set_word(Value& v, std::optional<std::string>& out, Mark& mark) {
  note_place(v, mark);
  return v.optional(out, &Value::name, kLongestWord);
}

bool add_dialect_file(Value& v) {
  std::string path;
  if (!v.file(path)) return false;
  v.draft.dialect_files.emplace_back(std::move(path), v.node.mark);
  return true;
}

// One path, or a list of paths.
bool set_dialects(Value& v) {
  if (v.node.kind != Node::Kind::list) return add_dialect_file(v);
  bool all = true;
  for (const Node& item : v.node.items) {
    Value one{v.draft, v.problems, item, v.path, v.secret};
    all = add_dialect_file(one) && all;
  }
  return all;
}

}  // namespace

// clang-format off
std::vector<Key> error_queue_keys() {
  return {
    {{"error_queues.*.from", "name or pattern", "", false, false,
      "queue to which a framework publishes its failed messages; * matches any characters: all such queues that exist"},
     [](Value& v) { return set_queue_name(v, error_queue(v).from, error_queue(v).from_mark); }},
    {{"error_queues.*.dialect", "name", "plain", false, false,
      "how the framework describes a failure: see `rung dialects`"},
     [](Value& v) { return set_word(v, error_queue(v).dialect, error_queue(v).dialect_mark); }},
    {{"error_queues.*.to", "name", "", false, false,
      "queue that the messages go back to; default: as the dialect says"},
     [](Value& v) { return set_queue_name(v, error_queue(v).to, error_queue(v).to_mark); }},
    {{"error_queues.*.ladder", "name", "", true, false,
      "ladder for messages from there, or none: they are parked at once; default: that of the queue they go back to"},
     [](Value& v) { return set_word(v, error_queue(v).ladder, error_queue(v).ladder_mark); }},
    {{"error_queues.*.group", "name", "", false, false, "with groups: the group that takes these messages in"},
     [](Value& v) { return set_word(v, error_queue(v).group, error_queue(v).group_mark); }},
    {{"dialects", "path or list of paths", "", false, false,
      "files with dialects of your own, one each; a dialect named like a built-in one replaces it"},
     set_dialects},
  };
}
// clang-format on

}  // namespace rung::confile
