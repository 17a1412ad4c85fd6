// What the command line answers about itself: what can be named, what the engine asks, what an audit found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "record/campaign.h"

namespace ridge::record {

struct ListedItem {
  std::string name, summary;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("summary", self.summary);
  }
};

// What `ridge campaign verify` and `replay` answer.
struct Audit {
  bool ok = false;
  std::string summary;
  std::vector<std::string> differences;
  std::string proves;                          // what a clean verification shows, and what it does not
  std::optional<std::string> key;              // the public key that the lines were held against
  std::optional<std::int64_t> signed_events;   // lines that it signed
  std::optional<std::int64_t> first_unsigned;  // line of the journal, from 1
  std::optional<std::int64_t> timestamps;      // kept
  std::optional<std::int64_t> rendered;        // files that are not in the folder and were rendered from the journal
  std::optional<std::int64_t> otherwise;       // files that an earlier version of ridge rendered otherwise
  static void fields(auto& v, auto& self) {
    v("ok", self.ok);
    v("summary", self.summary);
    v("differences", self.differences);
    v.optional("proves", self.proves);
    v.optional("key", self.key);
    v.optional("signed_events", self.signed_events);
    v.optional("first_unsigned", self.first_unsigned);
    v.optional("timestamps", self.timestamps);
    v.optional("rendered", self.rendered);
    v.optional("otherwise", self.otherwise);
  }
};

// What `ridge campaign slim` and `restore` did.
struct Slimmed {
  std::int64_t files = 0, bytes = 0;  // taken away, or written
  std::vector<std::string> kept;      // hold what the journal does not give
  static void fields(auto& v, auto& self) {
    v("files", self.files);
    v("bytes", self.bytes);
    v("kept", self.kept);
  }
};

// What `ridge campaign key new` and `show` answer.
struct KeyAnswer {
  std::string key, private_file, public_file;
  static void fields(auto& v, auto& self) {
    v("key", self.key);
    v.optional("private_file", self.private_file);
    v.optional("public_file", self.public_file);
  }
};

// What `ridge campaign rules` answers.
struct RuleTable {
  bool ok = false;  // nothing blocks
  std::vector<RuleRow> rules;
  static void fields(auto& v, auto& self) {
    v("ok", self.ok);
    v("rules", self.rules);
  }
};

// What `ridge handoff` answers: what must really work before a campaign starts.
struct HandoffRow {
  std::string what, detail;
  bool works = false;
  static void fields(auto& v, auto& self) {
    v("what", self.what);
    v("works", self.works);
    v("detail", self.detail);
  }
};

// `ridge handoff init`: what it wrote, or would write, and what the handoff then found.
struct HandoffInit {
  struct File {
    std::string path, text;
    static void fields(auto& v, auto& self) {
      v("path", self.path);
      v("text", self.text);
    }
  };
  std::string project;
  bool written = false;
  std::vector<File> files;
  std::vector<HandoffRow> checks;  // empty: not run
  static void fields(auto& v, auto& self) {
    v("project", self.project);
    v("written", self.written);
    v("files", self.files);
    v("checks", self.checks);
  }
};

// One row of `ridge campaign list`.
struct CampaignRow {
  std::string name, directory;
  std::string state;  // running | draft | finished | paused | stopped | unreadable
  std::string op, backend, gpu;
  std::optional<double> speedup;  // best against baseline; none before the baseline is measured
  std::int64_t rounds = 0, accepted = 0;
  std::string updated;  // time of the last event
  std::string problem;  // why it is unreadable
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("directory", self.directory);
    v("state", self.state);
    v.optional("op", self.op);
    v.optional("backend", self.backend);
    v.optional("gpu", self.gpu);
    v.optional("speedup", self.speedup);
    v("rounds", self.rounds);
    v("accepted", self.accepted);
    v.optional("updated", self.updated);
    v.optional("problem", self.problem);
  }
};

// What `ridge campaign export-kernel` answers.
struct KernelFile {
  std::vector<SourceFile> files;  // as written; the first is compiled
  std::string out, compile, configuration, candidate;
  std::int64_t round = 1;
  double speedup = 1;  // against the baseline
  static void fields(auto& v, auto& self) {
    v("candidate", self.candidate);
    v("round", self.round);
    v("speedup", self.speedup);
    v("configuration", self.configuration);
    v("compile", self.compile);
    v.optional("out", self.out);
    v("files", self.files);
  }
};

// One line of `ridge campaign watch --json`.
struct WatchLine {
  std::string time, event, phase, text;
  std::int64_t round = 1;
  double active = 0;
  static void fields(auto& v, auto& self) {
    v("time", self.time);
    v("event", self.event);
    v("phase", self.phase);
    v("round", self.round);
    v("active", self.active);
    v("text", self.text);
  }
};

struct Listing {
  std::vector<ListedItem> operators, proposers, gates, phases;
  static void fields(auto& v, auto& self) {
    v("operators", self.operators);
    v("proposers", self.proposers);
    v("gates", self.gates);
    v("phases", self.phases);
  }
};

}  // namespace ridge::record
