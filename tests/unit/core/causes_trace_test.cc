// docs/causes.md: of a stack trace, the type of its exception, its first own frame and the codes of its
// message.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "src/core/causes/fingerprint.h"

namespace rung {
namespace {

std::string traced(std::string_view error) { return fingerprint("orders", "", error).text; }

TEST(CausesTrace, Java) {
  const std::string ship =
      "java.lang.IllegalStateException: no stock of SKU-4711\n"
      "\tat java.base/java.util.Optional.orElseThrow(Optional.java:403)\n"
      "\tat com.acme.OrderService.lambda$ship$0(OrderService.java:42) ~[app.jar:1.4.2]\n"
      "\tat org.springframework.amqp.rabbit.Listener.invoke(Listener.java:7)\n";
  EXPECT_EQ(traced(ship), "java.lang.illegalstateexception in com.acme.orderservice.ship");
  EXPECT_EQ(traced("\tat com.acme.Outer$1.run(Outer.java)\n" + ship),
            traced("\tat com.acme.Outer$2.run(Outer.java)\n" + ship));
  EXPECT_EQ(
      traced("com.acme.OrderException: order 7\n\tat com.acme.Consumer.on(Consumer.java:9)\nCaused by: " +
             ship + "\t... 12 more\n"),
      traced(ship));
  // What was suppressed caused nothing.
  EXPECT_EQ(
      traced(ship + "\tSuppressed: java.io.IOException: closed\n\t\tat com.acme.File.close(File.java:1)\n"
                    "\tCaused by: java.lang.Error: x\n\t\t... 3 more\n"),
      traced(ship));
  EXPECT_EQ(traced("Exception in thread \"pool-1-thread-7\" " + ship), traced(ship));
  EXPECT_EQ(
      traced(
          "java.lang.NullPointerException\n\tat com.acme.A$$EnhancerBySpringCGLIB$$1a2b3c.f(<generated>)\n"),
      "java.lang.nullpointerexception in com.acme.a.f");
}

TEST(CausesTrace, TheCauseWithoutOwnFramesHasThoseAround) {
  EXPECT_EQ(
      traced(
          "a.b.OuterException: x\n\tat com.acme.A.f(A.java:1)\nCaused by: java.net.SocketException: reset\n"
          "\tat java.net.Socket.read(Socket.java:2)\n\t... 9 more\n"),
      "java.net.socketexception in com.acme.a.f");
}

TEST(CausesTrace, CodesOfTheMessageCount) {
  const std::string frame = "\n\tat com.acme.Client.get(Client.java:1)\n";
  EXPECT_EQ(traced("com.acme.HttpException: HTTP 404 for order 7" + frame),
            "com.acme.httpexception: 404 in com.acme.client.get");
  EXPECT_EQ(traced("com.acme.HttpException: HTTP 503 for order 7" + frame),
            "com.acme.httpexception: 503 in com.acme.client.get");
}

TEST(CausesTrace, WithoutOwnFrameTheMessageCounts) {
  EXPECT_EQ(traced("Error: connect ECONNREFUSED 10.0.0.3:5432\n"
                   "    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1278:16)\n"),
            "error: connect econnrefused");
}

TEST(CausesTrace, Dotnet) {
  const std::string ship =
      "System.InvalidOperationException: no stock\n"
      "   at System.Linq.ThrowHelper.ThrowNoElementsException()\n"
      "   at Acme.Orders.Shipper.<>c__DisplayClass3_0.<Ship>b__1(Order o) in /src/Shipper.cs:line 42\n"
      "   at MassTransit.Pipe.Send(Context c)\n";
  EXPECT_EQ(traced(ship), "system.invalidoperationexception in acme.orders.shipper.ship");
  EXPECT_EQ(traced("System.InvalidOperationException: no stock\n"
                   "   at Acme.Orders.Shipper.<Ship>d__12.MoveNext() in C:\\src\\Shipper.cs:line 43\n"),
            traced(ship));
  EXPECT_EQ(traced("System.AggregateException: One or more errors (no stock) ---> " + ship +
                   "   --- End of inner exception stack trace ---\n   at Acme.Main.Run()\n"),
            traced(ship));
  EXPECT_EQ(traced("System.Exception: order 7\n ---> " + ship +
                   "   --- End of inner exception stack trace ---\n   at Acme.Main.Run()\n"),
            traced(ship));
}

TEST(CausesTrace, Python) {
  const std::string ship =
      "Traceback (most recent call last):\n"
      "  File \"/usr/lib/python3.11/asyncio/runners.py\", line 190, in run\n"
      "    return runner.run(main)\n"
      "  File \"/app/consume.py\", line 12, in on_message\n"
      "    ship(order)\n"
      "  File \"/app/orders.py\", line 42, in ship\n"
      "    raise OutOfStock(sku)\n"
      "  File \"/app/venv/lib/python3.11/site-packages/pika/x.py\", line 1, in f\n"
      "    g()\n"
      "acme.OutOfStock: SKU-4711\n";
  EXPECT_EQ(traced(ship), "acme.outofstock in orders.ship");
  EXPECT_EQ(
      traced(
          "Traceback (most recent call last):\n  File \"/app/a.py\", line 1, in a\n    b()\nKeyError: 'x'\n\n"
          "During handling of the above exception, another exception occurred:\n\n" +
          ship),
      traced(ship));
  const std::string key =
      "Traceback (most recent call last):\n  File \"/app/a.py\", line 1, in <module>\n    b()\nKeyError: ";
  EXPECT_EQ(traced(key + "'total'"), "keyerror: total in a");
  EXPECT_NE(traced(key + "'total'"), traced(key + "'city'"));
}

TEST(CausesTrace, Ruby) {
  EXPECT_EQ(traced("/app/lib/order.rb:12:in `block in ship': no stock (Acme::OutOfStock)\n"
                   "\tfrom /app/lib/order.rb:9:in `each'\n\tfrom "
                   "/usr/local/bundle/gems/bunny-2.2/lib/a.rb:1:in `call'\n"),
            "acme::outofstock in order.ship");
  EXPECT_EQ(traced("/app/lib/order.rb:13:in 'Order#ship': no stock (Acme::OutOfStock)\n\tfrom "
                   "/app/a.rb:1:in '<main>'\n"),
            "acme::outofstock in order.ship");
}

TEST(CausesTrace, Php) {
  const std::string frames =
      "Stack trace:\n#0 /app/vendor/laravel/src/Connection.php(7): PDOStatement->execute()\n"
      "#1 /app/src/Order.php(33): Illuminate\\Database\\Connection->insert('...')\n"
      "#2 /app/src/Job.php(8): App\\Order->ship(Object(App\\Item))\n#3 {main}";
  EXPECT_EQ(traced("PHP Fatal error:  Uncaught PDOException: SQLSTATE[23000]: x in /app/src/Order.php:33\n" +
                   frames),
            "pdoexception: 23000 in app.order.ship");
  EXPECT_EQ(traced("Call to a member function ship() on null in /app/r/20240102/src/Order.php:12"),
            traced("Call to a member function ship() on null in /app/r/20250102/src/Order.php:14"));
  EXPECT_NE(traced("Call to a member function ship() on null in /app/src/Order.php:12"),
            traced("Call to a member function ship() on null in /app/src/Invoice.php:12"));
  EXPECT_EQ(
      traced(
          "RuntimeException: no stock\n  at App\\Order->ship(Object(App\\Item)) (/app/src/Order.php:12)\n"),
      "runtimeexception in app.order.ship");
}

TEST(CausesTrace, Node) {
  const std::string ship =
      "OutOfStock: SKU-4711\n    at new Stock (/app/node_modules/stock/index.js:1:2)\n"
      "    at async OrderService.ship (/app/dist/orders.js:42:11)\n    at process.processTicksAndRejections "
      "(node:internal/process/task_queues:95:5)\n";
  EXPECT_EQ(traced(ship), "outofstock in orderservice.ship");
  EXPECT_EQ(traced("TypeError: x\n    at /app/dist/orders.js:42:11\n    at f (/app/a.js:1:1)\n"),
            "typeerror in orders");
  EXPECT_EQ(traced("TypeError: x\n    at Object.<anonymous> (/app/dist/orders.js:42:11)\n"),
            "typeerror in orders");
  EXPECT_EQ(traced("TypeError: x\n    at ship (webpack:///./src/orders.js?:42:11)\n"), "typeerror in ship");
  EXPECT_EQ(traced("Error: order 7\n    at f (/app/a.js:1:1) {\n  [cause]: " + ship + "}\n"), traced(ship));
}

TEST(CausesTrace, Go) {
  const std::string frames =
      "\n\ngoroutine 17 [running]:\npanic({0x1, 0x2})\n\t/usr/local/go/src/runtime/panic.go:884 +0x213\n"
      "example.com/acme/orders.(*Service).Ship.func1(0xc000010000, {0x1, 0x2})\n\t/app/orders/ship.go:42 "
      "+0x1d\n"
      "main.main()\n\t/app/main.go:9 +0x1d\n\ngoroutine 1 [chan receive]:\nmain.other()\n\t/app/main.go:7\n";
  EXPECT_EQ(traced("panic: order 4711 is lost" + frames),
            "panic order * is lost in example.com.acme.orders.service.ship");
}

TEST(CausesTrace, Rust) {
  EXPECT_EQ(traced("thread 'main' panicked at src/orders.rs:42:5:\norder 4711 is lost\nstack backtrace:\n"
                   "   0: rust_begin_unwind\n             at /rustc/9fc6b4/library/std/src/panicking.rs:5\n"
                   "   1: core::panicking::panic_fmt\n   2: orders::ship::{{closure}}::h0123456789abcdef\n"
                   "             at ./src/orders.rs:42:5\n   3: core::ops::function::FnOnce::call_once\n"),
            "order * is lost in orders.ship");
  EXPECT_EQ(traced("thread 'tokio-runtime-worker' panicked at 'order 1 is lost', src/orders.rs:42:5"),
            traced("thread 'main' panicked at src/orders.rs:43:9:\norder 2 is lost"));
}

TEST(CausesTrace, APanicOfRustWithoutBacktraceSaysWhere) {
  const std::string unwrap = ":42:5:\ncalled `Option::unwrap()` on a `None` value";
  EXPECT_EQ(traced("thread 'main' panicked at src/pricing/tiers.rs" + unwrap),
            "called * on a * value in tiers");
  EXPECT_NE(traced("thread 'main' panicked at src/pricing/tiers.rs" + unwrap),
            traced("thread 'main' panicked at src/shipping/zones.rs" + unwrap));
}

TEST(CausesTrace, TheObjectOfALambdaIsNoFrame) {
  const std::string lambda = "\tat com.acme.Repo.lambda$find$3(Repo.java:14)\n";
  EXPECT_EQ(traced("java.lang.Error: x\n\tat com.acme.Repo$$Lambda/0x7f8b.apply(Unknown Source)\n" + lambda),
            traced("java.lang.Error: x\n" + lambda));
}

TEST(CausesTrace, WhatWasNullDoesNotCount) {
  const std::string frame = "\n\tat com.acme.A.f(A.java:1)\n";
  EXPECT_EQ(traced("java.lang.NullPointerException: Cannot invoke \"a.B.c()\" because \"d\" is null" + frame),
            traced("java.lang.NullPointerException" + frame));
}

TEST(CausesTrace, ElixirAndErlang) {
  EXPECT_EQ(
      traced("** (KeyError) key :total not found in: %{id: 7}\n    (elixir 1.14) lib/enum.ex:7: Enum.map/2\n"
             "    (orders 0.1.0) lib/orders/ship.ex:12: anonymous fn/1 in Orders.Ship.run/2\n"),
      "keyerror in orders.ship.run");
  EXPECT_EQ(traced("** (FunctionClauseError) no function clause\n    (orders 0.2.0) lib/a.ex:9: "
                   "Orders.ship(\"a\", 1)\n"),
            "functionclauseerror in orders.ship");
  EXPECT_EQ(traced("{badmatch,{error,timeout}}\n[{gen_server,call,2,[{file,\"gen_server.erl\"},{line,7}]},\n"
                   " {orders,ship,2,[{file,\"src/orders.erl\"},{line,42}]}]"),
            "badmatch error timeout in orders.ship");
}

TEST(CausesTrace, Cpp) {
  EXPECT_EQ(traced("terminate called after throwing an instance of 'std::out_of_range'\n  what():  at\n"
                   "#0  0x00007f11 in raise () from /lib/x86_64-linux-gnu/libc.so.6\n"
                   "#1  0x000055d0 in acme::Order::ship (this=0x7ffe, n=4) at /src/order.cc:42\n"),
            "std::out_of_range in acme.order.ship");
  EXPECT_EQ(traced("std::runtime_error: lost\n 0# boost::stacktrace::f() at /a.hpp:1\n 1# acme::ship(int) "
                   "at /src/ship.cc:42\n 2# main in /app/a\n"),
            "std::runtime_error in acme.ship");
}

TEST(CausesTrace, ALineThatOnlyBeginsLikeAFrameIsNone) {
  EXPECT_EQ(traced("delivery failed\nat the door (second try)"), "delivery failed at the door second try");
}

TEST(CausesTrace, NewlinesMayBeEscaped) {
  EXPECT_EQ(traced("java.lang.Error: x\\n\\tat com.acme.A.f(A.java:1)\\n"),
            traced("java.lang.Error: x\n\tat com.acme.A.f(A.java:2)\n"));
}

}  // namespace
}  // namespace rung
