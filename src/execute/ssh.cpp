#include "execute/ssh.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/process.h"
#include "base/text.h"
#include "execute/unit.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;

constexpr int kSshFailed = 255;  // of ssh itself, and of no command that we send

// A text of the other machine between two marks, so that what its shell prints is no part of it.
constexpr std::string_view kBegin = "@ridge-begin\n", kEnd = "@ridge-end\n";

std::string between_marks(const std::string& output) {
  const std::size_t begin = output.find(kBegin), end = output.rfind(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  return output.substr(begin + kBegin.size(), end - begin - kBegin.size());
}

class Ssh final : public Cluster {
 public:
  Ssh(SshOptions options, fs::path root) : options_(std::move(options)), folder_(std::move(root)) {}
  Ssh(const Ssh&) = delete;
  Ssh& operator=(const Ssh&) = delete;
  ~Ssh() override {
    if (!options_.temporary) return;
    for (const std::string& host : std::set<std::string>(known_))
      static_cast<void>(tell(host, fmt::format("rm -rf {}\n", quoted_folder())));
  }
  [[nodiscard]] std::string name() const override { return fmt::format("{}", fmt::join(options_.hosts, ", ")); }
  [[nodiscard]] std::size_t width() const override { return options_.hosts.size() * options_.slots; }
  [[nodiscard]] std::size_t capacity() const override { return width(); }
  [[nodiscard]] std::size_t most_in_batch() const override { return 1; }

  Status submit(const ClusterBatch& batch) override {
    const std::string host = batch.node.empty() ? least_busy() : batch.node;
    if (std::find(options_.hosts.begin(), options_.hosts.end(), host) == options_.hosts.end()) {
      return with_hint(
          make_error(ErrorCode::kConflict, "the campaign measures on {}, which is not among {}", host, name()),
          "name it, or begin a new campaign on the others");
    }
    const std::string& key = batch.keys.front();
    RIDGE_TRY(order, read_file(folder_.order(key)));
    RIDGE_TRY(turns, read_file(folder_.batch(batch.name) / "batch.json"));
    RIDGE_TRY(nonce, read_file(folder_.nonce()));
    const std::string run = quote_command({options_.program, "unit", ".", batch.name, "0", "--node", host});
    // The three files come through standard input, each with its length before it. At the end it waits, for five
    // seconds at most, until the job has left this session: what ends a session may end all that is in it.
    const std::string script = fmt::format(
        "set -e\nmkdir -p {0}\ncd {0}\nmkdir -p done units/{1} batches/{2}\n"
        "put() {{ read n; head -c \"$n\" > \"$1.part\"; mv \"$1.part\" \"$1\"; }}\n"
        "put nonce; put units/{1}/unit.json; put batches/{2}/batch.json\n"
        "cat > batches/{2}/run.sh <<'RIDGE_EOF'\n{3} > batches/{2}/log.txt 2>&1\necho $? > batches/{2}/exit\n"
        "RIDGE_EOF\nsetsid sh batches/{2}/run.sh < /dev/null > /dev/null 2>&1 &\np=$!; echo $p > batches/{2}/pid\n"
        "i=0; while [ $i -lt 100 ] && [ ! -e batches/{2}/log.txt ] && kill -0 $p 2> /dev/null; do i=$((i + 1)); sleep "
        "0.05; done\n",
        quoted_folder(), key, batch.name, run);
    std::string input;
    for (const std::string& text : {nonce, order, turns}) input += fmt::format("{}\n{}", text.size(), text);
    const Result<std::string> sent = tell(host, script, std::move(input));
    if (!sent) return sent.error();
    hosts_of_[batch.name] = host;
    keys_of_[batch.name] = key;
    return ok_status();
  }

  // What runs on every host; on the way, what has ended there is fetched.
  Result<std::vector<ClusterJob>> jobs(const std::string& prefix) override {
    std::vector<ClusterJob> all;
    for (const std::string& host : options_.hosts) {
      Result<std::vector<ClusterJob>> here = jobs_on(host, prefix);
      if (here) {
        down_since_.erase(host);
        all.insert(all.end(), here->begin(), here->end());
        continue;
      }
      if (here.error().code != ErrorCode::kTimeout) return here.error();
      const double since = down_since_.try_emplace(host, clock_.monotonic()).first->second;
      if (clock_.monotonic() - since > options_.patience) continue;
      if (options_.hosts.size() == 1) return here.error();
      for (const auto& [batch, on] : hosts_of_) {
        if (on == host) all.push_back({batch, 0, host + " " + batch, JobState::kRunning, host, "not reached", false});
      }
    }
    return all;
  }

  Status cancel(const std::vector<std::string>& ids) override {
    for (const std::string& id : ids) {
      const auto [host, batch] = parts_of(id);
      // The whole session: the worker, and what it started.
      const Result<std::string> told =
          tell(host, fmt::format("cd {0} && read p < batches/{1}/pid && kill -TERM -- \"-$p\" 2>/dev/null; true\n",
                                 quoted_folder(), batch));
      hosts_of_.erase(batch);
      if (!told) return told.error();
    }
    return ok_status();
  }

  JobFate fate(const std::string& id) override {
    const auto [host, batch] = parts_of(id);
    hosts_of_.erase(batch);
    const Result<std::string> said =
        tell(host, fmt::format("cd {0}/batches/{1} && cat exit 2>/dev/null; tail -n 3 log.txt 2>/dev/null; true\n",
                               quoted_folder(), batch));
    if (!said) return {said.error().message, false, {}};
    const std::string text(trimmed(*said));
    JobFate fate{text.empty() ? "its process was killed" : "exit code " + text, false, {}};
    fate.for_good = text.starts_with("127") || text.starts_with("126");
    if (fate.for_good) fate.hint = fmt::format("ridge is not there on {}: ssh:{},ridge=PATH names it", host, host);
    return fate;
  }

 private:
  [[nodiscard]] std::string quoted_folder() const { return quote_command({options_.folder}); }

  static std::pair<std::string, std::string> parts_of(const std::string& id) {
    const std::size_t blank = id.rfind(' ');
    return {id.substr(0, blank), id.substr(blank + 1)};
  }

  [[nodiscard]] std::string least_busy() const {
    const auto load = [&](const std::string& host) {
      const auto on =
          std::count_if(hosts_of_.begin(), hosts_of_.end(), [&](const auto& one) { return one.second == host; });
      return std::pair(down_since_.contains(host), on);
    };
    return *std::min_element(options_.hosts.begin(), options_.hosts.end(),
                             [&](const auto& a, const auto& b) { return load(a) < load(b); });
  }

  // What a script prints on a host. kTimeout: the host is not reached; a key or a name that ssh refuses is for good.
  Result<std::string> tell(const std::string& host, const std::string& script, std::string input = {}) {
    ProcessSpec spec;
    spec.argv = {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10"};
    if (!options_.config.empty()) spec.argv.insert(spec.argv.end(), {"-F", options_.config});
    spec.argv.insert(spec.argv.end(),
                     {"--", host,
                      "sh -c " + quote_command({fmt::format("printf '%s\\n' @ridge-begin\n{{\n{}}}\nprintf '%s\\n' "
                                                            "@ridge-end\n",
                                                            script)})});
    spec.standard_input = std::move(input);
    spec.timeout = 120;
    spec.output_limit_bytes = 256u << 20;
    RIDGE_TRY(ended, run_process(spec));
    if (ended.succeeded()) {
      known_.insert(host);
      return between_marks(ended.output);
    }
    const std::string says(trimmed(ended.error_output.empty() ? ended.describe() : ended.error_output));
    const bool ssh_failed = ended.end != ProcessResult::End::kExited || ended.exit_code == kSshFailed;
    if (ssh_failed && known_.contains(host)) return make_error(ErrorCode::kTimeout, "ssh {}: {}", host, says);
    if (!ssh_failed) {
      return with_hint(make_error(ErrorCode::kToolFailed, "ssh {}: {}", host, says),
                       fmt::format("{} on {} has to be a folder that can be written to and has room; folder=DIR names "
                                   "another",
                                   options_.folder, host));
    }
    return with_hint(make_error(ErrorCode::kToolFailed, "ssh {}: {}", host, says),
                     fmt::format("`ssh -o BatchMode=yes {} true` has to work without a question", host));
  }

  Result<std::vector<ClusterJob>> jobs_on(const std::string& host, const std::string& prefix) {
    RIDGE_TRY(said, tell(host, fmt::format("cd {0} 2>/dev/null || exit 0\nfor p in batches/{1}*/pid; do\n"
                                           "  read id < \"$p\" 2>/dev/null && kill -0 \"$id\" 2>/dev/null && echo "
                                           "\"run $p\"\ndone\nls done | sed 's/^/done /'\n",
                                           quoted_folder(), prefix)));
    std::vector<ClusterJob> running;
    for (const std::string& line : split(said, '\n')) {
      if (line.starts_with("run batches/") && line.ends_with("/pid")) {
        const std::string batch = line.substr(12, line.size() - 12 - 4);
        if (is_unit_name(batch)) running.push_back({batch, 0, host + " " + batch, JobState::kRunning, host, "", false});
      } else if (line.starts_with("done ") && is_unit_name(line.substr(5))) {
        RIDGE_CHECK_OK(fetch(host, line.substr(5)));
      }
    }
    return running;
  }

  // The result or the failures of a unit into the folder here; then it goes there.
  Status fetch(const std::string& host, const std::string& key) {
    std::error_code ignored;
    if (!fs::exists(folder_.order(key), ignored)) return ok_status();  // not of this queue
    RIDGE_TRY(names, tell(host, fmt::format("cd {}/units/{} && ls\n", quoted_folder(), key)));
    for (const std::string& name : split(names, '\n')) {
      const bool failure =
          name.starts_with("failed-") && name.ends_with(".json") && is_unit_name(name.substr(0, name.size() - 5));
      if (name != "result.json" && !failure) continue;
      RIDGE_TRY(text, tell(host, fmt::format("cat {}/units/{}/{}; echo\n", quoted_folder(), key, name)));
      const std::string content = std::string(trimmed(text)) + "\n";
      if (failure) {
        RIDGE_CHECK_OK(write_file_durably(folder_.unit(key) / name, content));
      } else {
        RIDGE_CHECK_OK(write_once(folder_.result(key), content));
      }
    }
    RIDGE_CHECK_OK(write_file_durably(folder_.done() / key, ""));
    for (const auto& [batch, of] : keys_of_) {
      if (of == key) hosts_of_.erase(batch);
    }
    const Result<std::string> gone =
        tell(host, fmt::format("cd {0} && rm -rf done/{1} units/{1}\n", quoted_folder(), key));
    return gone ? ok_status() : Status(gone.error());
  }

  SshOptions options_;
  UnitFolder folder_;
  SystemClock clock_;
  std::map<std::string, std::string> hosts_of_, keys_of_;  // by batch
  std::map<std::string, double> down_since_;
  std::set<std::string> known_;  // hosts that have answered
};

}  // namespace

Result<std::unique_ptr<Cluster>> make_ssh(SshOptions options, fs::path root) {
  if (find_program("ssh").empty()) {
    return with_hint(make_error(ErrorCode::kUnsupported, "there is no ssh on the path"),
                     "install OpenSSH's client, or measure here: local");
  }
  for (const std::string& host : options.hosts) {
    if (host.empty() || host.front() == '-' || host.find_first_of(" \t\n'\"") != std::string::npos)
      return with_hint(invalid("\"{}\" is no name of a machine", host), "ssh:HOST[,HOST...], as ssh knows it");
  }
  if (options.hosts.empty()) return with_hint(invalid("ssh names no machine"), "ssh:HOST[,HOST...]");
  return std::unique_ptr<Cluster>(std::make_unique<Ssh>(std::move(options), std::move(root)));
}

}  // namespace ridge::execute
