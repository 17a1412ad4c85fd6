// `ridge serve`: the pages of a folder of campaigns over HTTP, live.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "http/server.h"
#include "record/web.h"
#include "web/library_page.h"
#include "web/store.h"

namespace ridge::web {

struct SiteOptions {
  std::vector<std::filesystem::path> roots;  // campaigns, and folders that hold campaigns
  http::ServerOptions server;
  bool allow_control = false;        // pause, stop, resume, extend, propose
  std::filesystem::path data;        // of the installation: spec database; empty: none
  std::function<Library()> library;  // asked for once, when the page is
  // Does what a page asks of a campaign ("pause", "stop", "resume", "extend", "propose") and says what came of it.
  std::function<Result<std::string>(const std::string& what, const std::filesystem::path& campaign,
                                    const record::ControlRequest& request)>
      control;
};

class Site {
 public:
  explicit Site(SiteOptions options);
  ~Site();

  // Errors: no such folder, and those of http::Server::start().
  Status start();
  void stop();
  [[nodiscard]] http::Server& server() { return server_; }
  [[nodiscard]] Store& store() { return store_; }

 private:
  void declare_pages();
  void declare_control();
  http::Response overview(const http::Request& request);
  http::Response compare(const http::Request& request);
  http::Response campaign(const http::Request& request);
  http::Response round(const http::Request& request);
  http::Response samples(const http::Request& request, bool as_json);
  http::Response rules(const http::Request& request);
  http::Response device(const http::Request& request);
  http::Response library(const http::Request& request);
  http::Response control(const http::Request& request, const std::string& what);
  http::Response cached(const http::Request& request, const std::string& id, const std::function<Result<Page>()>& make);

  SiteOptions options_;
  std::shared_ptr<http::EventLog> events_;
  Store store_;
  http::Server server_;
  std::mutex mutex_;  // of what follows
  struct Kept {
    std::uint64_t version = 0;
    http::Response response;
  };
  std::map<std::string, Kept> kept_;  // the last drawings of pages, by address
  std::unique_ptr<Library> library_;
};

}  // namespace ridge::web
