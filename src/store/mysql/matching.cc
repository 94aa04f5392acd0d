// Filters with a regular expression on the error, and counts by field. The program tries the expression on
// rows that match everything else, in pages: the two databases have different engines, and both can take
// exponential time.
#include <algorithm>
#include <map>

#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

constexpr int kTriedAtOnce = 1000;            // a page: at most 8 MB of errors
constexpr std::size_t kMostValues = 100'000;  // of a count by field with an expression

// Bounds on how many rows, and for how long, one query tries the expression.
class Tries {
 public:
  explicit Tries(const Session& session)
      : clock_(session.clock()), until_(clock_.boot() + session.timeout()) {}
  void add(std::size_t rows) {
    tried_ += static_cast<std::int64_t>(rows);
    if (tried_ <= kMostTried && clock_.boot() < until_) return;
    throw Abort{{Error::Kind::permanent,
                 "the expression was tried on " + std::to_string(tried_) +
                     " tasks, and there are more: narrow the filter, e.g. by queue, state or time"}};
  }

 private:
  const Clock& clock_;
  const BootMs until_;
  std::int64_t tried_ = 0;
};

// Only ids below the last one read; "" = none was read yet.
std::string below(std::optional<TaskId> last) {
  return last ? ' ' + render("list.below", {{"id", Literal::number(last->value)}}) : "";
}

bool is_listed_before(Filter::Order order, const TaskRow& a, const TaskRow& b) {
  switch (order) {
    case Filter::Order::oldest:
      return a.task.id < b.task.id;
    case Filter::Order::due:
      return due_order(a.task) < due_order(b.task);
    case Filter::Order::newest:
      break;
  }
  return b.task.id < a.task.id;
}

// The expression of the value that tasks are counted by.
Literal value_of(const CountBy& by) {
  switch (by.field) {
    case CountBy::Field::queue:
      return Literal::rendered(render("count_by.queue"));
    case CountBy::Field::error_type:
      return Literal::rendered(render("count_by.error_type"));
    case CountBy::Field::tag:
      return Literal::rendered(render("count_by.tag"));
    case CountBy::Field::level:
      return Literal::rendered(render("count_by.level"));
    case CountBy::Field::cause:
      return Literal::rendered(render("count_by.cause"));
    case CountBy::Field::header:
      break;
  }
  return Literal::rendered(render("count_by.header", {{"name", Literal::text(by.header)}}));
}

}  // namespace

std::int64_t MysqlStore::freeze_matching(const Literal& bulk, const Filter& filter, const std::string& also,
                                         std::int64_t most) {
  Tries tries(*session_);
  std::int64_t total = 0, after = 0;
  for (int tried = kTriedAtOnce; tried == kTriedAtOnce && total < most;) {
    Rows rows;
    {
      auto row = session_->query(render("try", {{"value", Literal::null()}}) + conditions(filter) + also +
                                 ' ' + render("list.above", {{"id", Literal::number(after)}}) + ' ' +
                                 render("list.end_oldest", {{"limit", Literal::number(kTriedAtOnce)}}));
      for (tried = 0; row->next(); ++tried) {
        after = row->getInt64(1);
        if (total == most || !filter.error_matches->matches(text_at(*row, 2))) continue;
        rows.row() << bulk << Literal::number(after);
        ++total;
      }
    }
    if (tried == kTriedAtOnce) tries.add(kTriedAtOnce);
    if (rows.count() > 0) session_->exec(render("bulk_freeze_ids", {{"rows", rows.done()}}));
  }
  return total;
}

Result<std::vector<TaskRow>> MysqlStore::list_matching(const Filter& filter) {
  const auto most = static_cast<std::size_t>(std::max(0, filter.limit));
  const auto before = [&](const TaskRow& a, const TaskRow& b) {
    return is_listed_before(filter.order, a, b);
  };
  return session_->run_for([&] {
    std::vector<TaskRow> out;
    Tries tries(*session_);
    std::optional<TaskId> last;
    for (bool more = most > 0; more;) {
      auto row = session_->query(render("list") + conditions(filter) + below(last) + ' ' +
                                 render("list.end", {{"limit", Literal::number(kTriedAtOnce)}}));
      int tried = 0;
      for (; row->next(); ++tried) {
        TaskRow task = task_row_at(*row);
        last = task.task.id;
        if (filter.error_matches->matches(task.task.last_error)) out.push_back(std::move(task));
      }
      if (tried == kTriedAtOnce) tries.add(kTriedAtOnce);
      more = tried == kTriedAtOnce;
      if (filter.order == Filter::Order::newest) {
        more = more && out.size() < most;
      } else if (out.size() > most) {
        std::ranges::partial_sort(out, out.begin() + static_cast<std::ptrdiff_t>(most), before);
        out.resize(most);
      }
    }
    std::ranges::sort(out, before);
    if (out.size() > most) out.resize(most);
    return out;
  });
}

void MysqlStore::each_matching(const Filter& filter, const Literal& value,
                               const std::function<bool(const std::string& value)>& take) {
  Tries tries(*session_);
  std::optional<TaskId> last;
  for (int tried = kTriedAtOnce; tried == kTriedAtOnce;) {
    auto row = session_->query(render("try", {{"value", value}}) + conditions(filter) + below(last) + ' ' +
                               render("list.end", {{"limit", Literal::number(kTriedAtOnce)}}));
    for (tried = 0; row->next(); ++tried) {
      last = TaskId{row->getInt64(1)};
      if (filter.error_matches->matches(text_at(*row, 2)) && !take(text_at(*row, 3))) return;
    }
    if (tried == kTriedAtOnce) tries.add(kTriedAtOnce);
  }
}

Result<std::int64_t> MysqlStore::count_matching(const Filter& filter, std::int64_t most) {
  return session_->run_for([&] {
    std::int64_t count = 0;
    each_matching(filter, Literal::null(), [&](const std::string&) { return ++count < most; });
    return count;
  });
}

Result<TaskCounts> MysqlStore::count_by(const Filter& filter, const CountBy& by, std::int64_t most) {
  if (auto good = check(filter); !good) return tl::unexpected(good.error());
  if (by.field == CountBy::Field::header) {
    Filter indexed;
    indexed.headers.emplace_back(by.header, "");
    if (auto good = check(indexed); !good) return tl::unexpected(good.error());
  }
  return filter.error_matches ? count_matching_by(filter, by, most) : session_->run_for([&] {
    TaskCounts out;
    std::int64_t shown = 0;
    auto row = session_->query(
        render("count_by", {{"value", value_of(by)}}) + conditions(filter) + ' ' +
        render("count_by.end", {{"most", Literal::number(most)}, {"groups", Literal::number(kMostGroups)}}));
    while (row->next()) {
      out.groups.push_back({text_at(*row, 1), row->getInt64(2)});
      out.total = row->getInt64(3);
      shown += out.groups.back().tasks;
    }
    out.others = out.total - shown;
    return out;
  });
}

Result<TaskCounts> MysqlStore::count_matching_by(const Filter& filter, const CountBy& by, std::int64_t most) {
  return session_->run_for([&] {
    TaskCounts out;
    std::map<std::string, std::int64_t> values;
    each_matching(filter, value_of(by), [&](const std::string& value) {
      if (values.size() < kMostValues || values.contains(value)) {
        ++values[value];
      } else {
        ++out.others;
      }
      return ++out.total < most;
    });
    for (const auto& [value, tasks] : values) out.groups.push_back({value, tasks});
    std::ranges::stable_sort(out.groups, std::ranges::greater{}, &TaskCounts::Group::tasks);
    while (out.groups.size() > kMostGroups) {
      out.others += out.groups.back().tasks;
      out.groups.pop_back();
    }
    return out;
  });
}

}  // namespace rung::mysql
