#include "service/audit.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/signature.h"
#include "campaign/anchor.h"
#include "campaign/files.h"
#include "campaign/foreign.h"
#include "campaign/verify.h"
#include "record/json.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

// Adds what the signatures show; the chain itself is checked already.
Status check_key(const VerifyRequest& options, const std::vector<record::Event>& events, record::Audit& audit) {
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

Status check_stamps(const VerifyRequest& options, const std::vector<record::Event>& events, record::Audit& audit) {
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

}  // namespace

Result<record::Audit> verify_record(const VerifyRequest& options) {
  RIDGE_TRY(found, campaign::verify_campaign(options.directory));
  record::Audit audit{.ok = found.ok()};
  for (const campaign::FileFinding& finding : found.findings) {
    using Kind = campaign::FileFinding::Kind;
    const char* const mark = finding.kind == Kind::kStale     ? "(not up to date) "
                             : finding.kind == Kind::kEarlier ? "(of an earlier version of ridge, or edited) "
                                                              : "";
    audit.differences.push_back(fmt::format("{}: {}{}", finding.path, mark, finding.detail));
  }
  const std::string rendered = found.rendered > 0 ? fmt::format(" ({} of them rendered now)", found.rendered) : "";
  audit.rendered = found.rendered;
  audit.summary =
      fmt::format("verify: {} events, {} files{}, {} snapshots: {}. Last hash {}", found.events, found.files, rendered,
                  found.snapshots, found.ok() ? "all as the journal says" : "NOT as the journal says", found.last_hash);
  audit.otherwise = found.otherwise;
  if (found.otherwise > 0) {
    audit.summary += fmt::format(
        ". {} files were rendered otherwise by the earlier version of ridge that wrote this record, as the digests in "
        "its journal say",
        found.otherwise);
  }
  if (found.unstamped > 0) {
    audit.summary += fmt::format(
        ". {} of {} sessions carry no stamps, as older versions wrote them: less can be held "
        "against them",
        found.unstamped, found.sessions);
  }
  RIDGE_TRY(journal, record::read_journal(fs::path(options.directory) / campaign::kJournalFile));
  audit.proves = without_key(journal.events);
  if (!options.key.empty()) RIDGE_CHECK_OK(check_key(options, journal.events, audit));
  RIDGE_CHECK_OK(check_stamps(options, journal.events, audit));
  return audit;
}

Result<record::Audit> replay_record(const fs::path& directory) {
  RIDGE_TRY(found, campaign::replay_campaign(directory));
  record::Audit audit{.ok = found.ok(), .differences = found.differences};
  audit.summary = fmt::format("replay: {} decisions computed again from the raw samples: {}", found.decisions,
                              found.ok() ? "all the same" : "NOT the same");
  return audit;
}

Result<record::Audit> check_foreign_record(const fs::path& directory) {
  RIDGE_TRY(report, campaign::lint_foreign(directory));
  record::Audit audit{.ok = report.findings.empty()};
  for (const campaign::LintFinding& finding : report.findings) {
    audit.differences.push_back(
        fmt::format("{}: {}: {}", campaign::to_string(finding.kind), finding.path, finding.what));
  }
  audit.summary = fmt::format("check: {} files, {} rounds, {} called accepted: {} findings", report.files,
                              report.rounds, report.accepted, report.findings.size());
  if (report.without_commands > 0) {
    audit.summary += fmt::format(
        ". {} commands are not in its manifest: it began before ridge wrote them, and a confirmed manifest stays",
        report.without_commands);
  }
  return audit;
}

Result<record::KeyAnswer> new_signing_key(const std::string& file) {
  const SigningKey key = SigningKey::generate();
  RIDGE_CHECK_OK(key.write_new(file));
  return record::KeyAnswer{campaign::key_text(key.public_key()), file, file + ".pub"};
}

Result<record::KeyAnswer> show_public_key(const std::string& file) {
  RIDGE_TRY(key, read_public_key(file));
  return record::KeyAnswer{campaign::key_text(key), {}, {}};
}

}  // namespace ridge::service
