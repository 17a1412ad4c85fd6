// The server of the Model Context Protocol: requests come in as lines, answers go out as lines. A tool is a process of
// this program with
// --json, so that a call that fails or is cancelled takes nothing along, and says what the command line says.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
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

// The next line, without its end; false: there is none. Of a line that is longer than any message only the beginning is
// kept.
bool read_line(std::istream& in, std::string& line);
inline constexpr std::size_t kMostLineBytes = 16u << 20;

class Server {
 public:
  // `write` gets complete lines, one at a time.
  Server(ServerOptions options, std::vector<record::McpTool> tools, std::function<void(const std::string&)> write);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();  // waits for the calls that run

  // Answers a request, at once or, for a call of a tool, when it has ended.
  void receive(std::string_view line);
  // Waits until no call runs. A round ends although its client has gone.
  void finish();
  // Ends the calls that run.
  void cancel();

 private:
  struct Running {
    std::thread thread;
    std::atomic<bool> cancelled{false}, ended{false};
  };

  void answer(const record::McpRequest& request);
  void call(const record::McpRequest& request, bool modern);
  void run(const record::McpRequest& request, const record::McpTool& tool, bool modern, Running& running);
  void read_resource(const record::McpRequest& request, bool modern);
  void get_prompt(const record::McpRequest& request, bool modern);
  void fault(const record::McpRequest& request, int code, const std::string& message);
  void send(const std::string& line);
  void reap();

  ServerOptions options_;
  std::vector<record::McpTool> tools_;
  std::function<void(const std::string&)> write_;
  Pages pages_;
  bool initialized_ = false;
  std::mutex writing_;
  std::map<std::string, std::unique_ptr<Running>> running_;  // by the request's id
};

}  // namespace ridge::mcp
