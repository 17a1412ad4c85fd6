#include "campaign_verify.h"

#include <fmt/format.h>

#include "base/signature.h"
#include "campaign/anchor.h"
#include "campaign/campaign.h"
#include "campaign/files.h"
#include "campaign/verify.h"
#include "record/json.h"
#include "say.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

struct VerifyOptions {
  std::string directory, key;
};

// Adds what the signatures show; the chain itself is checked already.
Status check_key(const VerifyOptions& options, const std::vector<record::Event>& events, record::Audit& audit) {
  RIDGE_TRY(key, read_public_key(options.key));
  RIDGE_TRY(found, campaign::check_signatures(options.directory, events, key));
  audit.key = campaign::key_text(key);
  audit.signed_events = found.signed_events;
  if (found.ok()) {
    audit.proves = fmt::format(
        "Proves that a holder of the key {} wrote all {} lines. Does not prove that the holder measured honestly, nor "
        "that no later lines were taken away",
        *audit.key, found.events);
  } else {
    audit.ok = false;
    audit.first_unsigned = found.first_bad;
    audit.differences.push_back(fmt::format("{}: line {} {}", campaign::kJournalFile, found.first_bad, found.problem));
    audit.proves = fmt::format("{} of {} lines are signed by the key {}: the rest proves nothing of its origin",
                               found.signed_events, found.events, *audit.key);
  }
  if (found.unused > 0) {
    audit.summary += fmt::format(". {} signatures are of lines that were never completed", found.unused);
  }
  return ok_status();
}

Status check_stamps(const VerifyOptions& options, const std::vector<record::Event>& events, record::Audit& audit) {
  RIDGE_TRY(stamps, campaign::check_timestamps(options.directory, events));
  if (stamps.kept + stamps.failed == 0) return ok_status();
  audit.timestamps = stamps.kept;
  audit.summary +=
      fmt::format(". {} time stamps are kept in {}{}; their issuer's program checks them", stamps.kept,
                  campaign::kTimestampsFile, stamps.failed > 0 ? fmt::format(", {} failed", stamps.failed) : "");
  audit.differences.insert(audit.differences.end(), stamps.problems.begin(), stamps.problems.end());
  if (!stamps.problems.empty()) audit.ok = false;
  return ok_status();
}

// What is known of the origin without a key that was given from outside.
std::string without_key(const std::vector<record::Event>& events) {
  std::string said =
      "Proves that the record is consistent with itself: no line was changed alone. Does not prove who wrote it, "
      "because all of it can be written anew";
  const Result<record::Created> created = events.empty()
                                              ? Result<record::Created>(Error{})
                                              : record::from_json<record::Created>(events.front().payload, "created");
  const auto named = created ? campaign::signing_key_of(created->spec) : Result<std::optional<std::string>>(Error{});
  if (named && *named) {
    said += fmt::format(" (it names the key {}: hold it against the public key that you have with --key FILE.pub)",
                        campaign::key_text(**named));
  } else {
    said += " (it was not anchored to a key: ridge optimize --sign-key)";
  }
  return said;
}

int verify(const VerifyOptions& options) {
  const Result<campaign::VerifyReport> found = campaign::verify_campaign(options.directory);
  if (!found) return fail(found.error());
  record::Audit audit{.ok = found->ok()};
  for (const campaign::FileFinding& finding : found->findings) {
    using Kind = campaign::FileFinding::Kind;
    const char* const mark = finding.kind == Kind::kStale     ? "(not up to date) "
                             : finding.kind == Kind::kEarlier ? "(of an earlier version of ridge, or edited) "
                                                              : "";
    audit.differences.push_back(fmt::format("{}: {}{}", finding.path, mark, finding.detail));
  }
  const std::string rendered = found->rendered > 0 ? fmt::format(" ({} of them rendered now)", found->rendered) : "";
  audit.rendered = found->rendered;
  audit.summary = fmt::format("verify: {} events, {} files{}, {} snapshots: {}. Last hash {}", found->events,
                              found->files, rendered, found->snapshots,
                              found->ok() ? "all as the journal says" : "NOT as the journal says", found->last_hash);
  audit.otherwise = found->otherwise;
  if (found->otherwise > 0) {
    audit.summary += fmt::format(
        ". {} files were rendered otherwise by the earlier version of ridge that wrote this record, as the digests in "
        "its journal say",
        found->otherwise);
  }
  if (found->unstamped > 0) {
    audit.summary += fmt::format(
        ". {} of {} sessions carry no stamps, as older versions wrote them: less can be held "
        "against them",
        found->unstamped, found->sessions);
  }
  const Result<record::JournalText> journal =
      record::read_journal(fs::path(options.directory) / campaign::kJournalFile);
  if (!journal) return fail(journal.error());
  audit.proves = without_key(journal->events);
  if (!options.key.empty()) {
    if (const Status checked = check_key(options, journal->events, audit); !checked) return fail(checked.error());
  }
  if (const Status checked = check_stamps(options, journal->events, audit); !checked) return fail(checked.error());
  return print_audit(audit);
}

int replay(const std::string& directory) {
  const Result<campaign::ReplayReport> found = campaign::replay_campaign(directory);
  if (!found) return fail(found.error());
  record::Audit audit{.ok = found->ok(), .differences = found->differences};
  audit.summary = fmt::format("replay: {} decisions computed again from the raw samples: {}", found->decisions,
                              found->ok() ? "all the same" : "NOT the same");
  return print_audit(audit);
}

int answer_key(const record::KeyAnswer& answer) {
  if (globals().json) {
    say("{}\n", record::to_pretty(answer));
    return kSuccess;
  }
  say("{}\n", answer.key);
  if (!answer.private_file.empty()) {
    say("{}: the private key; keep it where those who can write a campaign cannot read it\n{}: the public key; "
        "publish it\nNext: ridge optimize OPERATOR --sign-key {}\n",
        answer.private_file, answer.public_file, answer.private_file);
  }
  return kSuccess;
}

int new_key(const std::string& file) {
  const SigningKey key = SigningKey::generate();
  if (const Status written = key.write_new(file); !written) return fail(written.error());
  return answer_key({campaign::key_text(key.public_key()), file, file + ".pub"});
}

int show_key(const std::string& file) {
  const Result<std::string> key = read_public_key(file);
  if (!key) return fail(key.error());
  return answer_key({campaign::key_text(*key), {}, {}});
}

void define_keys(Command& group) {
  Command keys = group.subcommand("key", "Keys that anchor a campaign: make one, show one");
  auto file = std::make_shared<std::string>();
  keys.subcommand("new", "Make an Ed25519 key: FILE (private) and FILE.pub")
      .positional("file", *file, "A new file, outside of every campaign")
      .example("ridge campaign key new ~/ridge.key", "then: ridge optimize gemm --sign-key ~/ridge.key")
      .exits({kSystem, {kHeld, "the file exists already"}})
      .json("the public key and the two files")
      .action([file] { return new_key(*file); });
  keys.subcommand("show", "Print the public key of a key file")
      .positional("file", *file, "FILE or FILE.pub")
      .example("ridge campaign key show ~/ridge.key.pub", "as a manifest and verify name it")
      .exits({kSystem})
      .json("the public key")
      .action([file] { return show_key(*file); });
}

}  // namespace

int print_audit(const record::Audit& audit) {
  if (globals().json) {
    say("{}\n", record::to_pretty(audit));
  } else {
    for (const std::string& difference : audit.differences) say("{}\n", difference);
    say("{}\n", audit.summary);
    if (!audit.proves.empty()) say("{}.\n", audit.proves);
  }
  return audit.ok ? kSuccess : kNo;
}

void define_campaign_verify(Command& group) {
  constexpr const char* kAudit = "whether it holds, a summary and a list of differences";
  auto options = std::make_shared<VerifyOptions>();
  group.subcommand("verify", "Check the journal's chain and render every file again; with --key, who wrote it")
      .positional("directory", options->directory, "Folder of the campaign")
      .option("--key FILE", options->key, "The public key that must have signed every line, FILE.pub")
      .example("ridge campaign verify campaigns/gemm_cpu_xeon_20260101", "exit code 1 when anything differs")
      .example("ridge campaign verify campaigns/gemm_cpu_xeon_20260101 --key ridge.key.pub",
               "names the first line that this key has not signed")
      .exits({kSystem, {kNo, "a file is not what the journal says, or a line is not signed by the key"}})
      .json(
          "whether it holds, a summary, a list of differences, what it proves, and with --key the key, how many lines "
          "it signed and the first that it did not")
      .action([options] { return verify(*options); });
  auto directory = std::make_shared<std::string>();
  group.subcommand("replay", "Decide every round again from the raw samples")
      .positional("directory", *directory, "Folder of the campaign")
      .example("ridge campaign replay campaigns/gemm_cpu_xeon_20260101", "exit code 1 when a decision differs")
      .exits({kSystem, {kNo, "a decision differs"}})
      .json(kAudit)
      .action([directory] { return replay(*directory); });
  define_keys(group);
}

}  // namespace ridge::cli
