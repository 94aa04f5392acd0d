// The rows of one insert(): tasks, indexed headers and bodies, in chunks.
#include <algorithm>
#include <utility>

#include "src/core/message/message.h"
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

struct Body {
  std::string properties;
  std::optional<std::string> headers;
  std::size_t bytes = 0;
};

class MysqlIntakeRows final : public IntakeRows {
 public:
  MysqlIntakeRows(Session& session, std::span<const NewTask> tasks) : session_(session), tasks_(tasks) {
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

  bool is_too_large(std::size_t task) const override {
    return bodies_[task].bytes + kPacketMargin > static_cast<std::size_t>(session_.max_packet());
  }

  std::vector<SameId> find_ids() override {
    std::vector<TaskId> ids;
    for (const NewTask& n : tasks_) ids.push_back(n.task.id);
    return session_.all(render("intake_ids", {{"ids", Literal::ids(ids)}}), [](const ::sql::ResultSet& row) {
      return SameId{id_at(row), time_at(row, 2).value_or(EpochMs{}), text_at(row, 3), text_at(row, 4)};
    });
  }

  std::vector<SameKey> find_keys() override {
    std::vector<Literal> keys;
    for (const NewTask& n : tasks_) {
      if (!n.intake_key.empty()) keys.push_back(Literal::bytes(intake_key_of(n)));
    }
    if (keys.empty()) return {};
    const Place among{"keys", Literal::list(keys)};
    return session_.all(render("intake_keys", {among, {"short_claim", short_claim()}}),
                        [](const ::sql::ResultSet& row) {
                          return SameKey{text_at(row, 1),
                                         {row.getInt64(2)},
                                         state_from(text_at(row, 3)).value_or(State::unknown),
                                         kind_from(text_at(row, 4)).value_or(Kind::retry),
                                         row.getInt(5),
                                         time_at(row, 6).value_or(EpochMs{})};
                        });
  }

  std::int64_t free_keys(std::span<const TaskId> ids, std::span<const TaskId> open) override {
    const TaskId none[] = {{0}};  // a list must not be empty
    return session_.exec(render("intake_free_keys", {{"ids", Literal::ids(ids)},
                                                     {"open", Literal::ids(open.empty() ? none : open)},
                                                     {"short_claim", short_claim()}}));
  }

  void insert(std::span<const std::size_t> fresh, std::span<const std::string> causes) override {
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
      const auto chunk = fresh.subspan(from, to - from);
      write_tasks(chunk, causes);
      write_headers(chunk);
      if (bodies <= std::min(kAsText, most_bytes)) {
        write_bodies_as_text(chunk);
      } else {
        write_bodies(chunk);
      }
      from = to;
    }
  }

 private:
  void write_tasks(std::span<const std::size_t> chunk, std::span<const std::string> causes) {
    const NewTaskColumns columns(tasks_, chunk);
    std::string names = columns.names();
    const bool failed = std::ranges::any_of(chunk, [&](std::size_t i) { return !causes[i].empty(); });
    if (failed) names += ",cause_id";
    Rows rows;
    for (const std::size_t i : chunk) {
      columns.add(rows, tasks_[i]);
      if (failed) rows << (causes[i].empty() ? Literal::null() : Literal::text(causes[i]));
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
  std::vector<Body> bodies_;
};

}  // namespace

std::unique_ptr<IntakeRows> MysqlTables::intake(std::span<const NewTask> tasks) {
  return std::make_unique<MysqlIntakeRows>(session_, tasks);
}

}  // namespace rung::mysql
