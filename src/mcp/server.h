// The server of the Model Context Protocol: a message comes in, answers go out where its exchange says. A tool is a
// process of this program with --json, so that a call that fails or is cancelled takes nothing along, and says what the
// command line says. Standard input and output and HTTP (http.h) carry the messages.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "mcp/pages.h"
#include "record/mcp.h"

namespace ridge::mcp {

struct ServerOptions {
  std::filesystem::path program;                 // of the tools
  std::filesystem::path root;                    // the folder that calls work in, and that paths stay inside
  std::vector<std::filesystem::path> knowledge;  // folders of pages of what is known; the later go before the earlier
  std::string version;
  int most_calls = 4;  // that run at the same time
};

// A client from `initialize` on; requests of the revision 2026-07-28 stand for themselves.
struct Session {
  std::string name;  // tells its calls from those of others
  std::atomic<bool> initialized{false};
};

// One complete message, and the code of the error that it tells (0: none).
struct Message {
  Message() = default;
  Message(std::string result) : text(std::move(result)) {}  // NOLINT: a result is a message
  explicit Message(const record::McpFault& fault, const std::string& revision = {})
      : text(record::mcp_error(fault, revision)), code(fault.code) {}

  std::string text;
  int code = 0;
};

// Where the answers to one message go.
struct Exchange {
  std::function<void(const Message&)> write;
  std::function<void()> done = [] {};  // after the last of them
};

// The next line, without its end; false: there is none. Of a line that is longer than any message only the beginning is
// kept.
bool read_line(std::istream& in, std::string& line);
inline constexpr std::size_t kMostLineBytes = 16u << 20;

class Server {
 public:
  Server(ServerOptions options, std::vector<record::McpTool> tools);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();  // waits for the calls that run

  // Answers a request, at once or, for a call of a tool, when it has ended. From any thread.
  void receive(std::string_view message, Session& session, const Exchange& exchange);
  // Ends a call of that session, if it runs. A call ends with its client only where the client says so: a round that
  // was begun is decided.
  void cancel(const Session& session, const std::string& id);
  // Waits until no call runs.
  void finish();
  // Ends the calls that run.
  void cancel();

  // Whether a tool's work stands in the journal of a campaign, so that a client that left finds it.
  [[nodiscard]] bool goes_on_alone(const std::string& tool) const;

 private:
  struct Running {
    std::thread thread;
    std::atomic<bool> cancelled{false}, ended{false};
  };
  using Key = std::pair<std::string, std::string>;  // the session's name, the request's id

  [[nodiscard]] Message answer(const record::McpRequest& request, Session& session) const;
  [[nodiscard]] Message read_resource(const record::McpRequest& request, bool modern) const;
  // The answer where there is one at once; else the call runs and answers itself.
  std::optional<Message> call(const record::McpRequest& request, const Session& session, const Exchange& exchange);
  [[nodiscard]] std::string run(const record::McpRequest& request, const record::McpTool& tool, bool modern,
                                const Exchange& exchange, const Running& running) const;
  void reap();

  ServerOptions options_;
  std::vector<record::McpTool> tools_;
  Pages pages_;
  std::mutex calls_;
  std::map<Key, std::unique_ptr<Running>> running_;
};

}  // namespace ridge::mcp
