// insert(): intake. One transaction in one packet: leases, rows and bodies in chunks, commit. Lapsed leases
// and rows that exist already are rare; a guard and the table's unique keys detect them. Then the transaction
// is repeated step by step: it locks the leases, looks for existing rows, and inserts the rest.
#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "src/core/message/message_json.h"
#include "src/store/mysql/columns.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kChunkRows = 500;
// Packet space of a body's row besides its texts: the statement, lengths, and the server's own overhead.
constexpr std::size_t kPacketMargin = 16 * 1024;
// Its short columns, at most: seven names of 255 bytes and some numbers.
constexpr std::size_t kMostOfNames = 2048;
// A chunk's bodies up to this size (and a quarter of a packet) go into the statement as digits, twice their
// size: cheaper than preparing a statement.
constexpr std::size_t kAsText = 512 * 1024;
// Duplicates often come in series: after a repeated call, this many calls look for existing rows first.
constexpr int kDoubts = 8;

struct Existing {
  TaskId id;
  bool over = false;
  int attempt = 0;
  EpochMs created_at;
};

struct Body {
  std::string properties;
  std::optional<std::string> headers;
  std::size_t bytes = 0;
};

// One call of insert().
class Intake {
 public:
  Intake(Session& session, const CauseBook& book, std::span<const NewTask> tasks)
      : session_(session), tasks_(tasks), book_(book) {
    order_.resize(tasks.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::sort(order_.begin(), order_.end(),
              [&](std::size_t a, std::size_t b) { return tasks_[a].task.id < tasks_[b].task.id; });
    bodies_.reserve(tasks.size());
    for (const NewTask& n : tasks) {
      Body body;
      body.properties = properties_to_json(n.message->properties);
      if (n.message->headers) body.headers = headers_to_json(*n.message->headers);
      body.bytes = n.message->body.size() + body.properties.size() + n.origin_json.size() +
                   (body.headers ? body.headers->size() : 0);
      bodies_.push_back(std::move(body));
    }
  }

  // True if the guard of all leases is enough: each task is of one of them, and none needs a look.
  bool fits_one_packet(const Fence& fence) const {
    const auto fenced = [&](const NewTask& n) {
      return std::ranges::find(fence.leases, n.task.shard, &Lease::shard) != fence.leases.end();
    };
    return !fence.by_hand && fence.node != 0 && std::ranges::all_of(tasks_, fenced) && !too_large_with_key();
  }

  // `look`: look for existing rows first; else a duplicate key error detects them.
  std::vector<Inserted> run(const std::vector<Lease>& held, const Fence& fence, bool look) {
    by_hand_ = fence.by_hand;
    results_.assign(tasks_.size(), {});
    for (std::size_t i = 0; i < tasks_.size(); ++i) results_[i].id = tasks_[i].task.id;
    here_.clear();
    taken_.clear();
    by_key_.clear();
    if (look || too_large_with_key() || !all_held(held)) {
      find_ids();
      find_keys();
    }
    std::vector<std::size_t> fresh;
    std::vector<TaskId> to_free;
    std::unordered_map<std::string, TaskId> in_batch;
    for (const std::size_t i : order_) {
      if (sort_out(i, held, in_batch, to_free)) fresh.push_back(i);
    }
    free_keys(std::move(to_free));
    find_causes(fresh);
    write(fresh);
    write_causes(session_, *changes_, fence.node, newest(fresh));
    write_outgoing(session_, parked(fresh));
    return results_;
  }
  const CauseChanges& causes() const { return *changes_; }

 private:
  static std::string key_of(const NewTask& n) {
    std::string key = n.intake_key;
    if (!key.empty()) key.resize(16, '\0');
    return key;
  }

  bool is_held(const NewTask& n, const std::vector<Lease>& held) const {
    return by_hand_ || std::ranges::find(held, n.task.shard, &Lease::shard) != held.end();
  }
  // A task whose lease is not held is not written, so no duplicate key shows that an earlier try wrote it.
  bool all_held(const std::vector<Lease>& held) const {
    return std::ranges::all_of(tasks_, [&](const NewTask& n) { return is_held(n, held); });
  }
  // A task too large to write causes no duplicate key error, which would show that it is already stored, as a
  // row without the body.
  bool too_large_with_key() const {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (is_too_large(i) && !tasks_[i].intake_key.empty()) return true;
    }
    return false;
  }
  bool is_too_large(std::size_t i) const {
    return bodies_[i].bytes + kPacketMargin > static_cast<std::size_t>(session_.max_packet());
  }

  // Finds the rows that an earlier call wrote before its answer was lost.
  void find_ids() {
    std::vector<TaskId> ids;
    for (const NewTask& n : tasks_) ids.push_back(n.task.id);
    auto rows = session_.query(render("intake_ids", {{"ids", Literal::ids(ids)}}));
    while (rows->next()) {
      const std::int64_t id = rows->getInt64(1);
      const auto n = std::ranges::find(tasks_, id, [](const NewTask& t) { return t.task.id.value; });
      // The queue may have changed since, by a failure or by a person.
      const bool ours = time_at(*rows, 2) == n->task.created_at && text_at(*rows, 3) == n->task.message_id &&
                        text_at(*rows, 4) == n->message->body;
      (ours ? here_ : taken_).insert(id);
    }
  }

  void find_keys() {
    std::vector<Literal> keys;
    for (const NewTask& n : tasks_) {
      if (!n.intake_key.empty()) keys.push_back(Literal::bytes(key_of(n)));
    }
    if (keys.empty()) return;
    auto rows = session_.query(
        render("intake_keys", {{"keys", Literal::list(keys)}, {"short_claim", short_claim()}}));
    while (rows->next()) {
      const State state = state_from(text_at(*rows, 3)).value_or(State::unknown);
      const Kind kind = kind_from(text_at(*rows, 4)).value_or(Kind::retry);
      by_key_[text_at(*rows, 1)] = {{rows->getInt64(2)},
                                    is_over(state, kind, rows->getInt(5)),
                                    rows->getInt(5),
                                    time_at(*rows, 6).value_or(EpochMs{})};
    }
  }

  // True if the row is to be written.
  bool sort_out(std::size_t i, const std::vector<Lease>& held,
                std::unordered_map<std::string, TaskId>& in_batch, std::vector<TaskId>& to_free) {
    const NewTask& n = tasks_[i];
    Inserted& result = results_[i];
    if (here_.contains(n.task.id.value)) return false;  // inserted, by an earlier try
    if (taken_.contains(n.task.id.value)) {
      result.how = Inserted::How::id_taken;
      return false;
    }
    const std::string key = key_of(n);
    const auto old = key.empty() ? by_key_.end() : by_key_.find(key);
    const bool frees = old != by_key_.end() &&
                       gives_up_key(old->second.over, old->second.attempt, old->second.created_at, n);
    if (old != by_key_.end() && !frees) {
      result = {Inserted::How::duplicate, old->second.id};
      return false;
    }
    if (const auto twin = in_batch.find(key); !key.empty() && twin != in_batch.end()) {
      result = {Inserted::How::duplicate, twin->second};
      return false;
    }
    if (is_too_large(i)) {
      result.how = Inserted::How::too_large;
      return false;
    }
    if (!is_held(n, held)) {
      result.how = Inserted::How::not_held;
      return false;
    }
    if (!key.empty()) in_batch[key] = n.task.id;
    if (frees) to_free.push_back(old->second.id);
    return true;
  }

  void free_keys(std::vector<TaskId> to_free) {
    if (to_free.empty()) return;
    std::sort(to_free.begin(), to_free.end());
    std::vector<TaskId> open;
    for (const auto& [key, old] : by_key_) {
      if (!old.over && std::ranges::binary_search(to_free, old.id)) open.push_back(old.id);
    }
    if (open.empty()) open.push_back({0});  // no task: a list must not be empty
    const auto freed = session_.exec(render(
        "intake_free_keys",
        {{"ids", Literal::ids(to_free)}, {"open", Literal::ids(open)}, {"short_claim", short_claim()}}));
    if (freed != static_cast<std::int64_t>(to_free.size())) throw Again{"a finished task was reopened"};
  }

  void find_causes(const std::vector<std::size_t>& fresh) {
    changes_.emplace(book_);
    causes_.assign(tasks_.size(), {});
    for (const std::size_t i : fresh) {
      causes_[i] = changes_->of(tasks_[i]);
      changes_->inserted(tasks_[i], causes_[i]);
    }
  }
  std::vector<OutgoingEvent> parked(const std::vector<std::size_t>& fresh) const {
    std::vector<OutgoingEvent> events;
    for (const std::size_t i : fresh) {
      if (is_parked_by(nullptr, tasks_[i].task)) events.push_back(parked_event(tasks_[i].task));
    }
    return events;
  }
  EpochMs newest(const std::vector<std::size_t>& fresh) const {
    EpochMs at;
    for (const std::size_t i : fresh) at = std::max(at, tasks_[i].task.created_at);
    return at;
  }

  void write(const std::vector<std::size_t>& fresh) {
    const auto most_bytes = static_cast<std::size_t>(session_.max_packet()) / 4;
    for (std::size_t from = 0; from < fresh.size();) {
      std::size_t to = from;
      std::size_t bytes = 0, bodies = 0;
      for (; to < fresh.size() && to - from < kChunkRows; ++to) {
        const std::size_t body = bodies_[fresh[to]].bytes;
        const std::size_t more = body + tasks_[fresh[to]].task.last_error.size() + kMostOfNames;
        if (to > from && bytes + more > most_bytes) break;
        bytes += more;
        bodies += body;
      }
      const std::span<const std::size_t> chunk(fresh.data() + from, to - from);
      write_tasks(chunk);
      write_headers(chunk);
      if (bodies <= std::min(kAsText, most_bytes)) {
        write_bodies_as_text(chunk);
      } else {
        write_bodies(chunk);
      }
      from = to;
    }
  }

  void write_tasks(std::span<const std::size_t> chunk) {
    std::vector<const NewTaskColumn*> columns;
    std::string names;
    for (const NewTaskColumn& column : new_task_columns()) {
      const auto differs = [&](std::size_t i) { return column.differs(tasks_[i]); };
      if (column.differs != nullptr && std::ranges::none_of(chunk, differs)) continue;
      columns.push_back(&column);
      names.append(names.empty() ? "" : ",").append(column.name);
    }
    const bool failed = std::ranges::any_of(chunk, [&](std::size_t i) { return !causes_[i].empty(); });
    if (failed) names += ",cause_id";
    Rows rows;
    for (const std::size_t i : chunk) {
      rows.row();
      for (const NewTaskColumn* column : columns) rows << column->value(tasks_[i]);
      if (failed) rows << (causes_[i].empty() ? Literal::null() : Literal::text(causes_[i]));
    }
    session_.later(
        render("insert_tasks", {{"columns", Literal::rendered(std::move(names))}, {"rows", rows.done()}}));
  }

  void write_headers(std::span<const std::size_t> chunk) {
    const auto& names = session_.options().index_headers;
    if (names.empty()) return;
    Rows rows;
    for (const std::size_t i : chunk) add_indexed_headers(rows, tasks_[i].task.id, *tasks_[i].message, names);
    if (rows.count() > 0) session_.later(render("insert_headers", {{"rows", rows.done()}}));
  }

  void write_bodies_as_text(std::span<const std::size_t> chunk) {
    Rows rows;
    for (const std::size_t i : chunk) {
      const Body& body = bodies_[i];
      rows.row() << Literal::number(tasks_[i].task.id.value) << Literal::text(body.properties)
                 << (body.headers ? Literal::text(*body.headers) : Literal::null())
                 << Literal::text(tasks_[i].origin_json) << Literal::bytes(tasks_[i].message->body);
    }
    session_.later(render("insert_bodies", {{"rows", rows.done()}}));
  }

  // Prepared statement: a body is sent as it is, not as digits of twice its size.
  void write_bodies(std::span<const std::size_t> chunk) {
    Rows rows;
    const Literal place = Literal::rendered("?");
    for (std::size_t i = 0; i < chunk.size(); ++i) rows.row() << place << place << place << place << place;
    auto statement = session_.prepare(render("insert_bodies", {{"rows", rows.done()}}));
    unsigned at = 0;
    for (const std::size_t i : chunk) {
      const Body& body = bodies_[i];
      statement->setInt64(++at, tasks_[i].task.id.value);
      statement->setString(++at, body.properties);
      if (body.headers) {
        statement->setString(++at, *body.headers);
      } else {
        statement->setNull(++at, 0);
      }
      statement->setString(++at, tasks_[i].origin_json);
      statement->setString(++at, tasks_[i].message->body.str());
    }
    statement->executeUpdate();
  }

  Session& session_;
  const std::span<const NewTask> tasks_;
  const CauseBook& book_;
  bool by_hand_ = false;
  std::vector<std::string> causes_;  // of tasks that are written; "" = it has not failed
  std::optional<CauseChanges> changes_;
  std::vector<std::size_t> order_;  // by id
  std::vector<Body> bodies_;
  std::vector<Inserted> results_;
  std::unordered_set<std::int64_t> here_, taken_;  // ids in the table: from our earlier try; from others
  std::unordered_map<std::string, Existing> by_key_;
};

}  // namespace

Inserted insert_child(Session& session, const CauseBook& book, const NewTask& child) {
  return Intake(session, book, {&child, 1}).run({}, Fence{0, {}, true}, true).front();
}

Result<std::vector<Inserted>> MysqlStore::insert(std::span<const NewTask> tasks, const Fence& fence) {
  if (tasks.empty()) return std::vector<Inserted>{};
  Intake intake(*session_, *causes_, tasks);
  bool at_once = doubts_ == 0 && intake.fits_one_packet(fence);
  bool repeated = false;
  const auto body = [&] {
    // What failed: a lease has lapsed, or the same intake, or the same call, was committed before.
    if (std::exchange(repeated, true)) doubts_ = kDoubts;
    if (std::exchange(at_once, false)) {
      const Fence needed = narrowed(fence, tasks, [](const NewTask& n) { return n.task.shard; });
      guard_leases(needed);
      return intake.run(needed.leases, needed, false);
    }
    return intake.run(lock_leases("leases_share", fence.node, fence.leases), fence, doubts_ > 0);
  };
  auto result = session_->transaction_for(body, "insert");
  if (result) causes_->stored(intake.causes().fresh());
  if (doubts_ > 0) --doubts_;
  return result;
}

}  // namespace rung::mysql
