// What an error of the server's or the client's means for us. Thread: any; free of the connector.
#pragma once

#include <string_view>

namespace rung::mysql {

enum class Trouble {
  gone,       // the connection is of no use any more: transient
  elsewhere,  // this server takes no writes (now), another may: transient, the connection is given up
  passing,    // of the moment, on a connection that lives (a lock, a full disk, a failover): transient
  row,        // about the data of this row: permanent
  refused,    // everything else: the database's trouble, waited out until somebody has mended it
};

// `text`: the server's words. They decide only where a code has several meanings.
Trouble trouble_of(int code, std::string_view text);

// Whether the server's words may quote a value, which may be a message's.
bool quotes_values(int code);

}  // namespace rung::mysql
