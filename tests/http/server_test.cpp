// The server as a client meets it: routes, who may ask, limits, streams of events, its end.
#include "http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <list>
#include <thread>

#include "http/access.h"
#include "http/client.h"

namespace ridge::http {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Limits short_limits() {
  Limits limits;
  limits.header_bytes = 4096;
  limits.body_bytes = 10'000;
  limits.header_seconds = 0.3;
  limits.body_seconds = 0.3;
  limits.idle_seconds = 2;
  limits.write_seconds = 0.3;
  limits.heartbeat_seconds = 0.5;
  limits.connections = 60;
  return limits;
}

class HttpServer : public testing::Test {
 protected:
  explicit HttpServer(ServerOptions options = {.limits = short_limits()}) : server_(std::move(options)) {
    server_.route("GET", "/", [](const Request&) { return text_response(200, "home"); });
    server_.route("GET", "/item/*/part/*", [](const Request& request) {
      return text_response(200, request.captured[0] + "|" + request.captured[1] + "|" + request.parameter("q"));
    });
    server_.route("POST", "/echo", [](const Request& request) { return json_response(request.body); });
    server_.route("GET", "/throws", [](const Request&) -> Response { throw std::runtime_error("secret detail"); });
    server_.route("GET", "/large", [](const Request&) { return text_response(200, std::string(20'000'000, 'x')); });
    server_.route("GET", "/events", [this](const Request& request) {
      Response response;
      response.events = log_;
      response.from_now = !request.parameter("from_now").empty();
      response.gone = [this] { ++gone_; };
      return response;
    });
  }
  void SetUp() override {
    const Status started = server_.start();
    ASSERT_TRUE(started.ok()) << started.error().text();
  }
  std::string ask(std::string_view request, double seconds = 5) {
    return TestClient(server_.port()).ask(request, seconds);
  }

  Server server_;
  std::shared_ptr<EventLog> log_ = std::make_shared<EventLog>("run1", 5);
  std::atomic<int> gone_ = 0;
};

TEST_F(HttpServer, AnswersByMethodAndPath) {
  EXPECT_THAT(ask(get("/")), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("home")));
  EXPECT_THAT(ask(get("/item/a%20b/part/2?q=x%26y")), HasSubstr("a b|2|x&y"));
  EXPECT_THAT(ask(get("/item//part/2")), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask(get("/nothing")), AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("there is no page /nothing")));
  EXPECT_THAT(ask(get("/echo")), AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: POST")));
  EXPECT_THAT(ask("DELETE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(ask(post("/echo", R"({"a":1})")), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr(R"({"a":1})")));
  const std::string head = ask("HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head, AllOf(StartsWith("HTTP/1.1 200"), Not(HasSubstr("home"))));
}

TEST_F(HttpServer, EveryAnswerHasTheHeadersThatKeepItToItself) {
  for (const char* path : {"/", "/nothing"}) {
    EXPECT_THAT(ask(get(path)),
                AllOf(HasSubstr("X-Content-Type-Options: nosniff"), HasSubstr("Cache-Control: no-store"),
                      HasSubstr("Content-Security-Policy: default-src 'none'")));
  }
}

TEST_F(HttpServer, KeepsAConnectionForMoreRequests) {
  TestClient client(server_.port());
  for (int i = 0; i < 3; ++i) {
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(client.read_until("home\n"), HasSubstr("200 OK"));
  }
}

TEST_F(HttpServer, AHandlerThatThrowsTellsNothingOfItself) {
  EXPECT_THAT(ask(get("/throws")), AllOf(StartsWith("HTTP/1.1 500"), Not(HasSubstr("secret detail"))));
  EXPECT_THAT(ask(get("/")), HasSubstr("home"));
}

TEST_F(HttpServer, RefusesNamesOfOthers) {
  EXPECT_THAT(ask(get("/", "", "evil.example")), AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("evil.example")));
  EXPECT_THAT(ask(get("/", "", "localhost.evil.example:80")), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask("GET / HTTP/1.1\r\nConnection: close\r\n\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask(get("/", "", "127.0.0.1:9999")), StartsWith("HTTP/1.1 200"));  // a tunnel's port
  EXPECT_THAT(ask(get("/", "", "[::1]:80")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask(get("/", "Origin: http://localhost\r\n")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask(get("/", "Origin: http://evil.example\r\n")), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask(post("/echo", "{}", "Origin: null\r\n")), StartsWith("HTTP/1.1 403"));
}

TEST_F(HttpServer, RefusesBodiesThatItDoesNotTake) {
  EXPECT_THAT(ask(post("/echo", "{}", "", "text/plain")), StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(ask(post("/echo", "{}", "Content-Encoding: gzip\r\n")), StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(ask(post("/echo", std::string(10'001, ' '))), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(ask(post("/echo", std::string(10'000, ' '))), StartsWith("HTTP/1.1 200"));
}

// The library's own limit knows the length that is announced only.
TEST_F(HttpServer, ABodyInChunksHasTheSameLimit) {
  std::string request =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
      "Connection: close\r\n\r\n";
  const std::string small = request + "2\r\n{}\r\n0\r\n\r\n";
  EXPECT_THAT(ask(small), StartsWith("HTTP/1.1 200"));
  for (int i = 0; i < 20; ++i) request += fmt::format("{:x}\r\n{}\r\n", 9000, std::string(9000, ' '));
  EXPECT_THAT(ask(request + "0\r\n\r\n"), StartsWith("HTTP/1.1 413"));
}

TEST_F(HttpServer, HeadersAreLimitedInBytes) {
  std::string many = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 1000; ++i) many += "X: y\r\n";
  EXPECT_THAT(ask(many + "\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(ask("GET /" + std::string(1'000'000, 'a')), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(ask(get("/" + std::string(2000, 'a'))), StartsWith("HTTP/1.1 414"));
}

TEST_F(HttpServer, AClientThatDripsIsLeftAfterTheWholeTime) {
  TestClient client(server_.port());
  const auto began = std::chrono::steady_clock::now();
  std::string answer;
  for (int i = 0; i < 40 && !client.ended(); ++i) {
    client.send("G");
    answer += client.read_until("", 0.05);
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 408"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2));
}

TEST_F(HttpServer, ABodyThatDoesNotComeEndsAfterTheWholeTime) {
  EXPECT_THAT(
      ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"),
      StartsWith("HTTP/1.1 408"));
}

TEST_F(HttpServer, AClientThatReadsNothingDoesNotHoldOthersAndIsLeft) {
  TestClient slow(server_.port(), 4096);
  slow.send(get("/large"));
  EXPECT_THAT(ask(get("/")), HasSubstr("home"));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  slow.close();
}

TEST_F(HttpServer, TheBodyOfAGetIsNotTheNextRequest) {
  const std::string inner = "GET /item/smuggled/part/1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string answer =
      ask(fmt::format("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}", inner.size(), inner));
  EXPECT_THAT(answer, AllOf(HasSubstr("home"), Not(HasSubstr("smuggled"))));
}

TEST_F(HttpServer, BytesThatAreNoRequestEndTheirConnectionOnly) {
  for (const char* bytes :
       {"\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02", "GET / HTTP/1.1\r\n:\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n"})
    EXPECT_THAT(ask(bytes, 1), Not(HasSubstr("200 OK"))) << bytes;
  EXPECT_THAT(ask(get("/")), HasSubstr("home"));
}

TEST_F(HttpServer, EventsComeAsTheyArePublished) {
  TestClient client(server_.port());
  client.send("GET /events HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip, br\r\n\r\n");
  EXPECT_THAT(client.read_until("retry: 1000\n\n"), AllOf(HasSubstr("text/event-stream"), Not(HasSubstr("gzip"))));
  const auto began = std::chrono::steady_clock::now();
  log_->publish("changed", "one\ntwo");
  EXPECT_THAT(client.read_until("two\n\n"), HasSubstr("id: run1-1\nevent: changed\ndata: one\ndata: two\n\n"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(200));
  EXPECT_THAT(client.read_until(": alive", 3), HasSubstr(": alive"));
}

TEST_F(HttpServer, AClientThatComesBackGetsWhatItMissed) {
  for (const char* data : {"a", "b", "c"}) log_->publish("", data);
  TestClient client(server_.port());
  client.send(get("/events", "Last-Event-ID: run1-1\r\n"));
  const std::string missed = client.read_until("data: c\n\n");
  EXPECT_THAT(missed, AllOf(HasSubstr("data: b"), Not(HasSubstr("data: a")), Not(HasSubstr("event: missed"))));
  TestClient fresh(server_.port());
  fresh.send(get("/events?from_now=1"));
  fresh.read_until("retry: 1000\n\n");
  log_->publish("", "d");
  EXPECT_THAT(fresh.read_until("data: d\n\n"), Not(HasSubstr("data: c")));
}

TEST_F(HttpServer, AClientIsToldWhatItCannotGetAnyMore) {
  for (int i = 0; i < 20; ++i) log_->publish("", "x");  // five are kept
  for (const char* id : {"run1-3", "run0-20", "run1-99", "nonsense"}) {
    TestClient client(server_.port());
    client.send(get("/events", fmt::format("Last-Event-ID: {}\r\n", id)));
    EXPECT_THAT(client.read_until("event: missed\n"), HasSubstr("event: missed")) << id;
  }
}

TEST_F(HttpServer, AClosedLogEndsItsStreams) {
  log_->publish("", "last");
  log_->close();
  EXPECT_THAT(ask(get("/events")), AllOf(HasSubstr("data: last"), HasSubstr("\r\n0\r\n\r\n")));
  EXPECT_EQ(gone_, 0);
}

TEST_F(HttpServer, AClientThatLeavesIsNoticed) {
  {
    TestClient client(server_.port());
    client.send(get("/events"));
    client.read_until("retry: 1000\n\n");
  }
  for (int i = 0; i < 300 && gone_ == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(gone_, 1);
}

TEST_F(HttpServer, FiftyClientsFollowAtOnceAndOneTooManyIsToldSo) {
  std::list<TestClient> clients;
  for (int i = 0; i < 60; ++i) {
    clients.emplace_back(server_.port()).send(get("/events"));
    ASSERT_THAT(clients.back().read_until("retry: 1000\n\n"), HasSubstr("retry")) << i;
  }
  EXPECT_THAT(ask(get("/")), StartsWith("HTTP/1.1 503"));
  log_->publish("", "to all");
  for (TestClient& client : clients) EXPECT_THAT(client.read_until("to all"), HasSubstr("to all"));
  clients.clear();
  for (int i = 0; i < 30; ++i) {
    if (ask(get("/")).find("home") != std::string::npos) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  FAIL() << "the places of clients that left are not free again";
}

TEST_F(HttpServer, StopEndsStreamsAndIdleConnectionsAtOnce) {
  TestClient following(server_.port()), idle(server_.port());
  following.send(get("/events"));
  following.read_until("retry: 1000\n\n");
  const auto began = std::chrono::steady_clock::now();
  std::thread reader([&] {
    following.read_until("");
    following.close();
    idle.read_until("");
    idle.close();
  });
  server_.stop();
  reader.join();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(1500));
  EXPECT_FALSE(TestClient(server_.port()).connected());
}

TEST_F(HttpServer, APortThatIsTakenIsSaid) {
  Server second({.port = server_.port()});
  const Status started = second.start();
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code, ErrorCode::kConflict);
  EXPECT_THAT(started.error().message, HasSubstr(fmt::format("port {} of 127.0.0.1 is taken", server_.port())));
  EXPECT_THAT(started.error().hint, HasSubstr("port 0"));
}

TEST(HttpServerAddresses, WhatCannotBeListenedOnIsSaid) {
  EXPECT_EQ(Server({.address = "203.0.113.7"}).start().error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Server({.address = "no.such.name.invalid"}).start().error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Server({.port = 70000}).start().error().code, ErrorCode::kInvalidArgument);
}

class WithToken : public HttpServer {
 protected:
  WithToken() : HttpServer({.token = kToken, .limits = short_limits()}) {}
  static constexpr const char* kToken = "0123456789abcdef";
};

TEST_F(WithToken, OnlyTheTokenOpens) {
  EXPECT_THAT(ask(get("/")), AllOf(StartsWith("HTTP/1.1 401"), HasSubstr("WWW-Authenticate: Bearer")));
  EXPECT_THAT(ask(get("/nothing")), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(ask(get("/", "Authorization: Bearer 0123456789abcdef\r\n")), StartsWith("HTTP/1.1 200"));
  for (const char* wrong :
       {"Bearer 0123456789abcdeF", "Bearer 0123456789abcde", "Bearer", "Basic 0123456789abcdef", "Bearer "})
    EXPECT_THAT(ask(get("/", fmt::format("Authorization: {}\r\n", wrong))), StartsWith("HTTP/1.1 401")) << wrong;
  EXPECT_THAT(ask(get("/?token=0123456789abcdef")), StartsWith("HTTP/1.1 401"));  // an address is not secret
  EXPECT_THAT(ask(post("/echo", "{}")), StartsWith("HTTP/1.1 401"));
}

TEST_F(WithToken, AOneTimeAddressGivesACookie) {
  int used = 0;
  server_.on_ticket_used([&] { ++used; });
  const std::string address = server_.one_time_url("/item/1/part/2");
  const std::string path = address.substr(address.find("/item"));
  const std::string answer = ask(get(path));
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 303"), HasSubstr("Location: /item/1/part/2\r\n"),
                            HasSubstr("HttpOnly"), HasSubstr("SameSite=Strict"), Not(HasSubstr(kToken))));
  const std::size_t at = answer.find("Set-Cookie: ") + 12;
  const std::string cookie = answer.substr(at, answer.find(';', at) - at);
  EXPECT_THAT(ask(get("/", fmt::format("Cookie: other=1; {}\r\n", cookie))), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask(get("/", fmt::format("Cookie: {}0\r\n", cookie))), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(ask(get(path)), StartsWith("HTTP/1.1 401")) << "it works once";
  EXPECT_EQ(used, 1);
}

TEST_F(WithToken, ARedirectStaysOnThisServer) {
  const std::string address = server_.one_time_url("//evil.example/x");
  const std::string path = address.substr(address.find("//evil"));
  EXPECT_THAT(ask(get(path)), HasSubstr("Location: /evil.example/x\r\n"));
}

TEST_F(WithToken, AForeignPageCannotUseTheCookie) {
  const std::string address = server_.one_time_url("/");
  const std::string answer = ask(get(address.substr(address.find("/?"))));
  const std::size_t at = answer.find("Set-Cookie: ") + 12;
  const std::string cookie = answer.substr(at, answer.find(';', at) - at);
  EXPECT_THAT(ask(post("/echo", "{}", fmt::format("Cookie: {}\r\nOrigin: http://evil.example\r\n", cookie))),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask(post("/echo", "{}", fmt::format("Cookie: {}\r\nOrigin: http://localhost\r\n", cookie))),
              StartsWith("HTTP/1.1 200"));
}

TEST(Access, NamesOfThisMachine) {
  EXPECT_TRUE(is_loopback("127.0.0.1") && is_loopback("127.8.8.8") && is_loopback("::1") && is_loopback("localhost"));
  EXPECT_FALSE(is_loopback("0.0.0.0") || is_loopback("::") || is_loopback("192.168.1.5"));
  EXPECT_TRUE(is_known_host("Wall.Example:8421", {"wall.example"}));
  EXPECT_FALSE(is_known_host("", {}));
  EXPECT_NE(random_token(), random_token());
}

}  // namespace
}  // namespace ridge::http
