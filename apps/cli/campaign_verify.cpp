#include "campaign_verify.h"

#include <fmt/format.h>

#include "say.h"
#include "service/audit.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

int verify(const service::VerifyRequest& request) { return print_audit(service::verify_record(request)); }
int replay(const std::string& directory) { return print_audit(service::replay_record(directory)); }

int answer_key(const Result<record::KeyAnswer>& found) {
  if (!found) return fail(found.error());
  const record::KeyAnswer& answer = *found;
  if (globals().json) return print_json(answer);
  say("{}\n", answer.key);
  if (!answer.private_file.empty()) {
    say("{}: the private key; keep it where those who can write a campaign cannot read it\n{}: the public key; "
        "publish it\nNext: ridge optimize OPERATOR --sign-key {}\n",
        answer.private_file, answer.public_file, answer.private_file);
  }
  return kSuccess;
}

void define_keys(Command& group) {
  Command keys = group.subcommand("key", "Keys that anchor a campaign: make one, show one");
  auto file = std::make_shared<std::string>();
  keys.subcommand("new", "Make an Ed25519 key: FILE (private) and FILE.pub")
      .positional("file", *file, "A new file, outside of every campaign")
      .example("ridge campaign key new ~/ridge.key", "then: ridge optimize gemm --sign-key ~/ridge.key")
      .exits({kSystem, {kHeld, "the file exists already"}})
      .json("the public key and the two files")
      .action([file] { return answer_key(service::new_signing_key(*file)); });
  keys.subcommand("show", "Print the public key of a key file")
      .positional("file", *file, "FILE or FILE.pub")
      .example("ridge campaign key show ~/ridge.key.pub", "as a manifest and verify name it")
      .exits({kSystem})
      .json("the public key")
      .action([file] { return answer_key(service::show_public_key(*file)); });
}

}  // namespace

int print_audit(const Result<record::Audit>& found) {
  if (!found) return fail(found.error());
  const record::Audit& audit = *found;
  const int code = audit.ok ? kSuccess : kNo;
  if (globals().json) return print_json(audit, code);
  for (const std::string& difference : audit.differences) say("{}\n", difference);
  say("{}\n", audit.summary);
  if (!audit.proves.empty()) say("{}.\n", audit.proves);
  return code;
}

void define_campaign_verify(Command& group) {
  constexpr const char* kAudit = "whether it holds, a summary and a list of differences";
  auto options = std::make_shared<service::VerifyRequest>();
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
