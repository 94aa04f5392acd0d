// By which value of a header rate_by limits a message. Every value that a broker can carry has a text: none
// evades the limit. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "src/core/message/message.h"
#include "src/core/rules/failure_rules.h"

namespace rung {

// The text of the header's value: text and bytes as they are, numbers in decimal digits without trailing
// zeros, true or false, a timestamp as its seconds since 1970. For tables, arrays, text and bytes that are
// longer than kIndexedBytes or no UTF-8: sha256: and the digest. "" = no value: no such header, null, or an
// empty text.
std::string rate_value(const Message& message, std::string_view header);
// Whether it is a digest: people do not recognize it.
bool is_digest(std::string_view rate_value);

// The same from what is stored with a task. Rules see a header's value as indexed_value() has it: where
// rate_value() differs, it is stored beside it.
std::string rate_value(const RuleHeaders& stored, std::string_view header);
void store_rate_value(RuleHeaders& stored, const Message& message, const std::string& header);

}  // namespace rung
