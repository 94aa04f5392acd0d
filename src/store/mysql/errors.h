// Classifies error codes of the server and of the client library. Does not use the connector. Thread: any.
#pragma once

#include <string_view>

namespace rung::mysql {

enum class Trouble {
  gone,       // the connection is unusable: transient
  elsewhere,  // this server accepts no writes (now), another may: transient, the connection is closed
  passing,    // temporary, on a working connection (a lock, a full disk, a failover): transient
  row,        // about the data of this row: permanent
  refused,    // everything else: a fault of the database, retried until somebody fixes it
};

// `text`: the server's message, used only if a code has several meanings.
Trouble trouble_of(int code, std::string_view text);

// Whether the server's message may quote a value, possibly from a message.
bool quotes_values(int code);

// What a person has to do about a refusal, behind a semicolon; "" if the server's message says it.
std::string_view advice(int code);

}  // namespace rung::mysql
