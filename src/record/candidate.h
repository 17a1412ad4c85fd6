// Candidate: what a proposer offers and what the engine builds, checks and measures.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record/names.h"
#include "record/usage.h"

namespace ridge::record {

struct SourceFile {
  std::string path;  // relative, inside the candidate's folder
  std::string text;
  friend bool operator==(const SourceFile&, const SourceFile&) = default;
  static void fields(auto& v, auto& self) {
    v("path", self.path);
    v("text", self.text);
  }
};

// A candidate for the CPU is C++ source with one entry point, see docs/candidates.md:
//   extern "C" int ridge_kernel(const ridge_call* call);
struct Candidate {
  std::string op;                               // operator it implements
  std::string backend = "cpu";                  // cpu | cuda
  std::string name;                             // for people: "plain", "round 3: pack B"
  std::vector<SourceFile> sources;              // sources[0] is compiled; the others are its headers
  std::map<std::string, std::int64_t> defines;  // values of declared tunables, passed as -DNAME=VALUE
  std::vector<std::string> flags;               // extra compiler flags out of the allow-list of the toolchain
  std::string parent;                           // id of the candidate it was derived from; empty for the baseline

  // SHA-256 over everything that changes the built artefact (not name, not parent).
  [[nodiscard]] std::string id() const;
  // The first 12 digits, for people.
  [[nodiscard]] std::string short_id() const { return id().substr(0, 12); }

  static void fields(auto& v, auto& self) {
    v("op", self.op);
    v("backend", self.backend);
    v("name", self.name);
    v("sources", self.sources);
    v("defines", self.defines);
    v("flags", self.flags);
    v("parent", self.parent);
  }
};

// A kernel of the library reaches the kernel layer by where both lie in the tree ("../../device/cuda/kernel/"), a
// candidate by its name ("ridge/kernel/"): the text of the library's kernel as a source of a candidate, and back to a
// kernel at `path` (from src/).
std::string as_candidate_text(std::string library_text);
std::string as_library_text(std::string candidate_text, std::string_view path);

// The tunables a candidate source declares in a comment block:
//   /* ridge-tunables
//   [[tunable]]
//   name = "MR"            # the macro
//   values = [1, 2, 4, 6, 8]
//   default = 1
//   kind = "parameter"     # parameter | structure
//   category = "tile"      # tile | layout | pipeline | resource | backend | algorithm
//   title = "rows of the register tile"
//   effect = "reuses each loaded value of B MR times"
//   needs = "PACK == 1"    # the tunable has no effect unless this holds (optional)
//   model = "register_rows" # what the search's cost model may assume about it (optional, see docs/proposers.md)
//   group = "register tile" # tunables of one group change together, as one hypothesis (optional)
//   [[constraint]]
//   expression = "MR * NR <= 24"
//   reason = "accumulators must fit 32 vector registers"
//   */
struct Tunable {
  std::string name;
  std::vector<std::int64_t> values;
  std::int64_t default_value = 0;
  std::string kind = "parameter";
  std::string category = "tile";
  std::string title, effect, needs;
  std::string model, group;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("values", self.values);
    v("default", self.default_value);
    v("kind", self.kind);
    v("category", self.category);
    v("title", self.title);
    v("effect", self.effect);
    v("needs", self.needs);
    v.optional("model", self.model);
    v.optional("group", self.group);
  }
};

struct Constraint {
  std::string expression, reason;
  static void fields(auto& v, auto& self) {
    v("expression", self.expression);
    v("reason", self.reason);
  }
};

struct TuneSpace {
  std::vector<Tunable> tunables;
  std::vector<Constraint> constraints;
  static void fields(auto& v, auto& self) {
    v("tunables", self.tunables);
    v("constraints", self.constraints);
  }
};

// A cache that a change keeps between calls: what it keeps and what finds it again. Declared, because a cache that is
// keyed on the identity of a tensor which is new in every training step never hits there.
struct CacheClaim {
  std::string caches;              // "the quantised weight"
  std::vector<std::string> key;    // id(weight) | weight._version | shape | stride | dtype | id(activation) | ...
  std::vector<std::string> tests;  // names of tests that change the weight in place and expect a miss
  static void fields(auto& v, auto& self) {
    v("caches", self.caches);
    v("key", self.key);
    v.optional("tests", self.tests);
  }
};

// What changed, why, and what would show it: stated before anything is built.
struct Hypothesis {
  std::string title;                     // one line: the single change
  std::string bottleneck;                // compute | memory | latency | resource | launch
  std::string reasoning;                 // from the evidence to the change
  double expected_gain = 0.0;            // fraction: 0.25 is 25 % faster
  std::string expected_gain_arithmetic;  // how that number was computed
  std::string category;                  // tile | layout | pipeline | resource | backend | algorithm
  std::string mechanism;                 // stable key of the direction, for instance "PACK_B" or "sweep"
  std::string bucket = "K1";             // transfer bucket: K1 kernel-internal .. K4, W1
  std::vector<std::string> risks;
  std::string verification_signal;
  std::vector<std::string> evidence;        // ids of records it rests on
  std::optional<std::int64_t> informed_by;  // the round whose failure led here; needed after a rollback
  std::vector<std::string> planned_files;   // sources that the change edits; parameters need none
  std::optional<CacheClaim> cache;
  static void fields(auto& v, auto& self) {
    v("title", self.title);
    v("bottleneck", self.bottleneck);
    v("reasoning", self.reasoning);
    v("expected_gain", self.expected_gain);
    v.optional("expected_gain_arithmetic", self.expected_gain_arithmetic);
    v("category", self.category);
    v("mechanism", self.mechanism);
    v.optional("bucket", self.bucket);
    v.optional("risks", self.risks);
    v.optional("verification_signal", self.verification_signal);
    v.optional("evidence", self.evidence);
    v.optional("informed_by", self.informed_by);
    v.optional("planned_files", self.planned_files);
    v.optional("cache", self.cache);
  }
};

// What a proposer answers: one hypothesis with one candidate, or with several values of parameters over one source
// (a sweep, still one round), or nothing left to try.
struct Proposal {
  Hypothesis hypothesis;
  std::vector<Candidate> candidates;
  bool exhausted = false;  // nothing left to try; `reason` says why
  std::string reason;
  std::optional<Usage> usage;  // of the language model that made it
  static void fields(auto& v, auto& self) {
    v("hypothesis", self.hypothesis);
    v("candidates", self.candidates);
    v.optional("exhausted", self.exhausted);
    v.optional("reason", self.reason);
    v.optional("usage", self.usage);
  }
};

}  // namespace ridge::record
