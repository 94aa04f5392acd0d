#include "src/store/mysql/replace_message.h"

#include <optional>
#include <string>
#include <string_view>

#include "src/core/base/utf8.h"
#include "src/core/message/message_json.h"
#include "src/core/task/origin.h"
#include "src/store/mysql/columns.h"
#include "src/store/mysql/render.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kColumnBytes = 255;

Literal correlation_id_of(const Message& message) {
  const auto& id = message.properties.correlation_id;
  return id && !id->empty() ? Literal::text(clean_utf8(*id, kColumnBytes)) : Literal::null();
}

void replace_body(Session& session, const Task& task, const Message& message) {
  auto rows = session.query(render("lock_body", {{"id", Literal::number(task.id.value)}}));
  if (!rows->next()) return;  // purged by hand: the task has no message any more
  const EarlierContent earlier{task.attempt, text_at(*rows, 1), text_at(*rows, 2)};
  const std::string origin = add_earlier(text_at(*rows, 3), earlier);
  rows.reset();
  session.exec(render(
      "replace_message",
      {{"id", Literal::number(task.id.value)},
       {"properties", Literal::text(properties_to_json(message.properties))},
       {"headers", message.headers ? Literal::text(headers_to_json(*message.headers)) : Literal::null()},
       {"origin", Literal::text(origin)}}));
}

}  // namespace

void replace_message(Session& session, const Task& task, const Message& message) {
  const Literal id = Literal::number(task.id.value);
  replace_body(session, task, message);
  session.exec(render("replace_message.task", {{"id", id},
                                               {"digest", Literal::bytes(task.digest)},
                                               {"tag", Literal::text(clean_utf8(task.tag, kColumnBytes))},
                                               {"rule_headers", rule_headers_literal(task.rule_headers)},
                                               {"correlation_id", correlation_id_of(message)}}));
  const auto& names = session.options().index_headers;
  if (names.empty()) return;
  session.exec(render("replace_message.drop_headers", {{"id", id}}));
  Rows rows;
  add_indexed_headers(rows, task.id, message, names);
  if (rows.count() > 0) session.exec(render("insert_headers", {{"rows", rows.done()}}));
}

}  // namespace rung::mysql
