// ridge serve: the campaigns of a folder as pages in a browser, live.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "context.h"
#include "execute/background.h"
#include "http/access.h"
#include "record/json.h"
#include "record/web.h"
#include "say.h"
#include "service/campaigns.h"
#include "service/worker_call.h"
#include "subcommands.h"
#include "terminal.h"
#include "token_file.h"
#include "web/site.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUsualPort = 8421;

struct ServeOptions {
  std::vector<std::string> directories;  // none: campaigns
  std::string address = "127.0.0.1", token_file;
  std::int64_t port = kUsualPort;
  std::vector<std::string> names;
  bool no_token = false, allow_control = false;
};

Result<std::string> token_of(const ServeOptions& options) {
  if (options.no_token) {
    if (options.allow_control) return with_hint(invalid("--allow-control needs a token"), "leave out --no-token");
    if (!http::is_loopback(options.address))
      return with_hint(invalid("{} is not this machine alone, so a token is needed", options.address),
                       "leave out --no-token, or --bind");
    return std::string();
  }
  return options.token_file.empty() ? http::random_token() : token_in(options.token_file);
}

web::Library library(const Context& context) {
  web::Library found;
  record::WorkerRequest request;
  request.task = record::WorkerTask::kOperators;
  Result<record::WorkerResponse> response = service::ask_worker(context, request);
  if (response) {
    found.operators = std::move(response->operators);
  } else {
    found.problems.push_back(response.error().text());
  }
  std::error_code ignored;
  const fs::path tree =
      fs::exists(fs::path(RIDGE_SOURCE_DIR) / "src", ignored) ? fs::path(RIDGE_SOURCE_DIR) : fs::path();
  web::read_tables(found, context.data_directory, context.cache_directory, tree);
  return found;
}

Result<std::string> extend(const fs::path& campaign, const record::ControlRequest& request) {
  if (request.budget.empty() && !request.max_iterations)
    return with_hint(invalid("nothing to extend was named"), "a time, for instance 10m");
  RIDGE_TRY(answer, service::extend_campaign({campaign.string(), request.budget, request.max_iterations}));
  return answer.message;
}

constexpr double kStart = 1, kCheck = 5;  // seconds in which a mistake shows: of a start, of a round that is refused

// The engine is a process of its own: it goes on when the pages are not served any more.
Result<std::string> in_background(const Context& context, const fs::path& campaign,
                                  const std::vector<std::string>& words, double seconds, std::string_view done) {
  std::error_code ignored;
  std::vector<std::string> command = {fs::read_symlink("/proc/self/exe", ignored).string(), "--quiet"};
  command.insert(command.end(), words.begin(), words.end());
  const fs::path log = context.cache_directory / "serve" / (campaign.filename().string() + ".log");
  if (const Status started = execute::start_in_background(command, log, seconds); !started) {
    Error refused = started.error();
    refused.code = ErrorCode::kConflict;  // the engine's answer, and no fault of the server
    return refused;
  }
  return fmt::format("{}; what the engine says is in {}", done, log.string());
}

Result<std::string> propose(const Context& context, const fs::path& campaign, const record::ControlRequest& request) {
  std::vector<std::string> words = {"campaign", "propose"};
  for (const auto& [flag, value] : {std::pair("--defines", request.defines),
                                    {"--title", request.title},
                                    {"--reason", request.reason},
                                    {"--expect", request.expect}}) {
    if (!value.empty()) words.push_back(fmt::format("{}={}", flag, value));
  }
  words.insert(words.end(), {"--by=browser", "--", campaign.string()});
  return in_background(context, campaign, words, kCheck, "The round is being decided");
}

Result<std::string> control(const Context& context, const std::string& what, const fs::path& campaign,
                            const record::ControlRequest& request) {
  if (what == "resume")
    return in_background(context, campaign, {"campaign", "resume", campaign.string()}, kStart, "It goes on");
  if (what == "propose") return propose(context, campaign, request);
  if (what == "extend") return extend(campaign, request);
  RIDGE_TRY(answer, what == "pause" ? service::pause_campaign(campaign) : service::stop_campaign(campaign));
  return answer.message;
}

void announce(web::Site& site, const ServeOptions& options) {
  const std::string address = site.server().one_time_url("/");
  if (globals().json) {
    say("{}\n", record::to_line(record::ServeAnswer{site.server().url("/"), address, site.server().port()}));
  } else {
    say("Serving {} at {}\nOpen once: {}\n", fmt::join(options.directories, ", "), site.server().url("/"), address);
    if (options.allow_control) say("Pages may pause, stop, resume and extend campaigns, and propose rounds.\n");
  }
  std::fflush(stdout);
  if (!http::is_loopback(options.address))
    say(stderr,
        "ridge serve: what is sent to other machines can be read on the way; a tunnel (ssh -L) or a proxy with "
        "TLS keeps it and the token private\n");
}

int serve_pages(const Context& context, const ServeOptions& options) {
  Result<std::string> token = token_of(options);
  if (!token) return fail(token.error());
  web::SiteOptions site_options;
  site_options.roots.assign(options.directories.begin(), options.directories.end());
  site_options.server.address = options.address;
  site_options.server.port = options.port;
  site_options.server.token = std::move(*token);
  site_options.server.host_names = options.names;
  site_options.allow_control = options.allow_control;
  site_options.data = context.data_directory;
  site_options.library = [&] { return library(context); };
  site_options.control = [&](const std::string& what, const fs::path& campaign, const record::ControlRequest& request) {
    return control(context, what, campaign, request);
  };
  web::Site site(std::move(site_options));
  if (const Status started = site.start(); !started) return fail(started.error());
  announce(site, options);
  site.server().on_ticket_used(
      [&site] { say(stderr, "Opened. For another browser: {}\n", site.server().one_time_url("/")); });
  while (interruptions() == 0) ::usleep(100'000);
  site.stop();
  return kSuccess;
}

}  // namespace

void define_serve(Command root) {
  auto options = std::make_shared<ServeOptions>();
  root.subcommand("serve", "Show campaigns in a browser, live")
      .positional("directories", options->directories,
                  "Campaigns, for instance of a queue, or folders of campaigns (default: campaigns)", false)
      .option("--port N", options->port, "Port (default: 8421); 0 takes any that is free")
      .option("--bind ADDRESS", options->address, "Address to listen on (default: 127.0.0.1, this machine alone)")
      .option("--host-name NAME", options->names,
              "A name under which browsers reach it, beside addresses and localhost")
      .option("--token-file FILE", options->token_file,
              "Holds the token, for scripts; made when it is missing (default: a new token each time)")
      .flag("--no-token", options->no_token, "Every program of this machine may read the pages")
      .flag("--allow-control", options->allow_control, "Pages may pause, stop, resume and extend campaigns")
      .example("ridge serve", "the campaigns in ./campaigns; open the address that it prints, which works once")
      .example("ridge serve campaigns/gemm_cpu_xeon_20260101 --allow-control", "one campaign, with buttons")
      .example("ridge serve campaigns/a campaigns/b", "the campaigns of a queue")
      .example("ridge serve --port 0 --json", "any free port; a program reads the address")
      .exits({{kSystem, "no permission for the port"}, {kHeld, "the port is taken"}})
      .json("one object when it listens: the address, the address that works once, the port")
      .action([options](const Context& context) {
        if (options->directories.empty()) options->directories = {"campaigns"};
        return serve_pages(context.silent(), *options);
      });
}

}  // namespace ridge::cli
