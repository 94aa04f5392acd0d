#include "tests/support/amqp_table.h"

#include <variant>

namespace rung::test {
namespace {

using Field = decltype(amqp_field_value_t::value);

template <class Member, class V>
amqp_field_value_t field(std::uint8_t kind, Member Field::*member, const V& v) {
  amqp_field_value_t out{};
  out.kind = kind;
  out.value.*member = v;
  return out;
}

// One for each type that a value can have.
template <class... Of>
struct Visitor : Of... {
  using Of::operator()...;
};
template <class... Of>
Visitor(Of...) -> Visitor<Of...>;

}  // namespace

amqp_table_t TableArena::table(const Table& table) {
  std::vector<amqp_table_entry_t> entries;
  entries.reserve(table.size());
  for (const auto& [name, item] : table) {
    amqp_table_entry_t entry{};
    entry.key = bytes_of(name);
    entry.value = value(item);
    entries.push_back(entry);
  }
  tables_.push_back(std::move(entries));
  return {static_cast<int>(tables_.back().size()), tables_.back().data()};
}

amqp_field_value_t TableArena::value(const Value& value) {
  const Visitor visitor{
      [](std::monostate) {
        return amqp_field_value_t{AMQP_FIELD_KIND_VOID, {}};
      },
      [](bool v) { return field(AMQP_FIELD_KIND_BOOLEAN, &Field::boolean, v ? 1 : 0); },
      [](std::int8_t v) { return field(AMQP_FIELD_KIND_I8, &Field::i8, v); },
      [](std::uint8_t v) { return field(AMQP_FIELD_KIND_U8, &Field::u8, v); },
      [](std::int16_t v) { return field(AMQP_FIELD_KIND_I16, &Field::i16, v); },
      [](std::uint16_t v) { return field(AMQP_FIELD_KIND_U16, &Field::u16, v); },
      [](std::int32_t v) { return field(AMQP_FIELD_KIND_I32, &Field::i32, v); },
      [](std::uint32_t v) { return field(AMQP_FIELD_KIND_U32, &Field::u32, v); },
      [](std::int64_t v) { return field(AMQP_FIELD_KIND_I64, &Field::i64, v); },
      [](std::uint64_t v) { return field(AMQP_FIELD_KIND_U64, &Field::u64, v); },
      [](float v) { return field(AMQP_FIELD_KIND_F32, &Field::f32, v); },
      [](double v) { return field(AMQP_FIELD_KIND_F64, &Field::f64, v); },
      [](const Decimal& v) {
        const amqp_decimal_t decimal{v.scale, static_cast<std::uint32_t>(v.value)};
        return field(AMQP_FIELD_KIND_DECIMAL, &Field::decimal, decimal);
      },
      [](const Timestamp& v) { return field(AMQP_FIELD_KIND_TIMESTAMP, &Field::u64, v.seconds); },
      [](const std::string& v) { return field(AMQP_FIELD_KIND_UTF8, &Field::bytes, bytes_of(v)); },
      [](const Bytes& v) { return field(AMQP_FIELD_KIND_BYTES, &Field::bytes, bytes_of(v.data)); },
      [this](const Array& v) {
        std::vector<amqp_field_value_t> items;
        items.reserve(v.size());
        for (const Value& item : v) items.push_back(this->value(item));
        arrays_.push_back(std::move(items));
        const amqp_array_t array{static_cast<int>(arrays_.back().size()), arrays_.back().data()};
        return field(AMQP_FIELD_KIND_ARRAY, &Field::array, array);
      },
      [this](const Table& v) { return field(AMQP_FIELD_KIND_TABLE, &Field::table, table(v)); }};
  return std::visit(visitor, value.v);
}

Table table_from(const amqp_table_t& table) {
  Table out;
  for (int i = 0; i < table.num_entries; ++i) {
    out.emplace_back(string_of(table.entries[i].key), value_from(table.entries[i].value));
  }
  return out;
}

Value value_from(const amqp_field_value_t& value) {
  switch (value.kind) {
    case AMQP_FIELD_KIND_BOOLEAN:
      return value.value.boolean != 0;
    case AMQP_FIELD_KIND_I8:
      return value.value.i8;
    case AMQP_FIELD_KIND_U8:
      return value.value.u8;
    case AMQP_FIELD_KIND_I16:
      return value.value.i16;
    case AMQP_FIELD_KIND_U16:
      return value.value.u16;
    case AMQP_FIELD_KIND_I32:
      return value.value.i32;
    case AMQP_FIELD_KIND_U32:
      return value.value.u32;
    case AMQP_FIELD_KIND_I64:
      return value.value.i64;
    case AMQP_FIELD_KIND_U64:
      return value.value.u64;
    case AMQP_FIELD_KIND_F32:
      return value.value.f32;
    case AMQP_FIELD_KIND_F64:
      return value.value.f64;
    case AMQP_FIELD_KIND_DECIMAL:
      return Decimal{value.value.decimal.decimals, static_cast<std::int32_t>(value.value.decimal.value)};
    case AMQP_FIELD_KIND_TIMESTAMP:
      return Timestamp{value.value.u64};
    case AMQP_FIELD_KIND_UTF8:
      return string_of(value.value.bytes);
    case AMQP_FIELD_KIND_BYTES:
      return Bytes{string_of(value.value.bytes)};
    case AMQP_FIELD_KIND_TABLE:
      return table_from(value.value.table);
    case AMQP_FIELD_KIND_ARRAY: {
      Array out;
      for (int i = 0; i < value.value.array.num_entries; ++i) {
        out.push_back(value_from(value.value.array.entries[i]));
      }
      return out;
    }
    default:
      return {};
  }
}

amqp_basic_properties_t properties_of(const Message& message, TableArena& arena) {
  amqp_basic_properties_t out{};
  const Properties& p = message.properties;
  const auto text = [&](const std::optional<std::string>& from, amqp_bytes_t& to, amqp_flags_t flag) {
    if (!from) return;
    to = bytes_of(*from);
    out._flags |= flag;
  };
  text(p.content_type, out.content_type, AMQP_BASIC_CONTENT_TYPE_FLAG);
  text(p.content_encoding, out.content_encoding, AMQP_BASIC_CONTENT_ENCODING_FLAG);
  text(p.correlation_id, out.correlation_id, AMQP_BASIC_CORRELATION_ID_FLAG);
  text(p.reply_to, out.reply_to, AMQP_BASIC_REPLY_TO_FLAG);
  text(p.expiration, out.expiration, AMQP_BASIC_EXPIRATION_FLAG);
  text(p.message_id, out.message_id, AMQP_BASIC_MESSAGE_ID_FLAG);
  text(p.type, out.type, AMQP_BASIC_TYPE_FLAG);
  text(p.user_id, out.user_id, AMQP_BASIC_USER_ID_FLAG);
  text(p.app_id, out.app_id, AMQP_BASIC_APP_ID_FLAG);
  text(p.cluster_id, out.cluster_id, AMQP_BASIC_CLUSTER_ID_FLAG);
  if (p.delivery_mode) {
    out.delivery_mode = *p.delivery_mode;
    out._flags |= AMQP_BASIC_DELIVERY_MODE_FLAG;
  }
  if (p.priority) {
    out.priority = *p.priority;
    out._flags |= AMQP_BASIC_PRIORITY_FLAG;
  }
  if (p.timestamp) {
    out.timestamp = *p.timestamp;
    out._flags |= AMQP_BASIC_TIMESTAMP_FLAG;
  }
  if (message.headers) {
    out.headers = arena.table(*message.headers);
    out._flags |= AMQP_BASIC_HEADERS_FLAG;
  }
  return out;
}

void properties_into(Message& message, const amqp_basic_properties_t& from) {
  Properties& p = message.properties;
  const auto text = [&](amqp_flags_t flag, amqp_bytes_t bytes, std::optional<std::string>& to) {
    if ((from._flags & flag) != 0) to = string_of(bytes);
  };
  text(AMQP_BASIC_CONTENT_TYPE_FLAG, from.content_type, p.content_type);
  text(AMQP_BASIC_CONTENT_ENCODING_FLAG, from.content_encoding, p.content_encoding);
  text(AMQP_BASIC_CORRELATION_ID_FLAG, from.correlation_id, p.correlation_id);
  text(AMQP_BASIC_REPLY_TO_FLAG, from.reply_to, p.reply_to);
  text(AMQP_BASIC_EXPIRATION_FLAG, from.expiration, p.expiration);
  text(AMQP_BASIC_MESSAGE_ID_FLAG, from.message_id, p.message_id);
  text(AMQP_BASIC_TYPE_FLAG, from.type, p.type);
  text(AMQP_BASIC_USER_ID_FLAG, from.user_id, p.user_id);
  text(AMQP_BASIC_APP_ID_FLAG, from.app_id, p.app_id);
  text(AMQP_BASIC_CLUSTER_ID_FLAG, from.cluster_id, p.cluster_id);
  if ((from._flags & AMQP_BASIC_DELIVERY_MODE_FLAG) != 0) p.delivery_mode = from.delivery_mode;
  if ((from._flags & AMQP_BASIC_PRIORITY_FLAG) != 0) p.priority = from.priority;
  if ((from._flags & AMQP_BASIC_TIMESTAMP_FLAG) != 0) p.timestamp = from.timestamp;
  if ((from._flags & AMQP_BASIC_HEADERS_FLAG) != 0) message.headers = table_from(from.headers);
}

}  // namespace rung::test
