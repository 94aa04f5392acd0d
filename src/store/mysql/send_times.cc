// Send times of queues with rates: their schedules, which all instances share.
#include "src/core/gates/send_times.h"

#include <set>

#include "src/core/rules/rate_value.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

// The queue's own row has the value "".
std::set<std::string> keys_of(const SendRequest& request) {
  std::set<std::string> keys{""};
  for (const auto& value : request.values) keys.insert(value.value);
  return keys;
}

Rows& add_key(Rows& rows, const std::string& queue, const std::string& value) {
  const Literal q = Literal::text(queue), v = Literal::text(value);
  return rows.row() << q << length_of(q) << v << length_of(v);
}

using Books = std::map<std::string, SendBook>;

void lock_rates(Session& session, const std::map<std::string, const SendRequest*>& requests) {
  Rows rows;
  for (const auto& [queue, request] : requests) {
    for (const std::string& value : keys_of(*request))
      add_key(rows, queue, value) << Literal::rendered(render("time_now"));
  }
  session.exec(render("rates_lock", {{"rows", rows.done()}}));
}

// Returns the database's time.
EpochMs read_rates(Session& session, const std::map<std::string, const SendRequest*>& requests,
                   Books& books) {
  std::string which;
  for (const auto& [queue, request] : requests) {
    which +=
        (which.empty() ? "" : " OR ") +
        render("rates_of", {{"queue", Literal::text(queue)}, {"values", Literal::texts(keys_of(*request))}});
  }
  EpochMs now{0};
  auto row = session.query(render("rates", {{"which", Literal::rendered(std::move(which))}}));
  while (row->next()) {
    if (const auto at = time_at(*row, 4)) now = *at;
    const auto book = books.find(text_at(*row, 1));
    if (book == books.end()) continue;
    const std::string value = text_at(*row, 2);
    auto& times = value.empty() ? book->second.queue : book->second.values[value];
    times.next_us = row->getInt64(3);
  }
  if (now.ms == 0) throw Again{"the rows of the rates are missing"};
  return now;
}

void write_rates(Session& session, const Books& books, EpochMs now) {
  Rows rows;
  const auto add = [&](const std::string& queue, const std::string& value, const SendSchedule& schedule) {
    add_key(rows, queue, value) << Literal::time(now) << Literal::number(schedule.next_us);
  };
  for (const auto& [queue, book] : books) {
    add(queue, "", book.queue);
    for (const auto& [value, schedule] : book.values) {
      if (!value.empty() && schedule.next_us > 0) add(queue, value, schedule);
    }
  }
  session.exec(render("rates_write", {{"rows", rows.done()}}));
}

}  // namespace

Result<std::vector<SendTimes>> MysqlStore::take_send_times(std::span<const SendRequest> requests) {
  std::map<std::string, const SendRequest*> by_queue;  // in the order of the key: the order of the locks
  for (const SendRequest& request : requests) by_queue[request.queue] = &request;
  if (by_queue.empty()) return std::vector<SendTimes>{};
  return session_->transaction_for([&] {
    Books books;
    for (const auto& [queue, request] : by_queue) books[queue];
    lock_rates(*session_, by_queue);
    const EpochMs now = read_rates(*session_, by_queue, books);
    std::vector<SendTimes> out;
    for (const SendRequest& request : requests) out.push_back(take(books[request.queue], request, now));
    write_rates(*session_, books, now);
    return out;
  });
}

Result<int> MysqlStore::forget_send_times(EpochMs before, int most) {
  return session_->run_for([&] {
    return static_cast<int>(
        session_->exec(render("rates_forget", {{"before", Literal::time(before)},
                                               {"before_us", Literal::number(before.ms * 1000)},
                                               {"most", Literal::number(most)}})));
  });
}

Result<std::map<TaskId, std::string>> MysqlStore::header_values(std::span<const TaskId> ids,
                                                                const std::string& header) {
  return session_->run_for([&] {
    std::map<TaskId, std::string> out;
    if (ids.empty()) return out;
    auto row = session_->query(render("rule_headers", {{"ids", Literal::ids(ids)}}));
    while (row->next())
      out.emplace(TaskId{row->getInt64(1)}, rate_value(rule_headers_from(text_at(*row, 2)), header));
    return out;
  });
}

}  // namespace rung::mysql
