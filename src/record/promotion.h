// A promotion as it lies beside the kernel it is about (src/ops/<op>/promotions/<campaign>.json): what a campaign won,
// what that is worth in the library, and every edit, so that it can be taken back.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "record/case.h"

namespace ridge::record {

// `removed` became `added` at one place of a file; a file that was not there was created with `added`.
struct TextEdit {
  std::string path;  // from the top of the tree
  std::string removed, added;
  bool created = false;
  static void fields(auto& v, auto& self) {
    v("path", self.path);
    v("removed", self.removed);
    v("added", self.added);
    v.optional("created", self.created);
  }
};

// One shape of the campaign, measured against what the library ran before.
struct PromotedShape {
  Case shape;
  std::string over;                     // what dispatch chose before
  double ratio = 1, low = 1, high = 1;  // time of that over the configuration's, paired, with a 95 % interval
  double latency = 0;                   // seconds of one call of the configuration
  std::int64_t sessions = 0;
  bool tuned = false;  // faster, so it has a line in the device's tuned table
  static void fields(auto& v, auto& self) {
    v("shape", self.shape);
    v("over", self.over);
    v("ratio", self.ratio);
    v("low", self.low);
    v("high", self.high);
    v("latency", self.latency);
    v("sessions", self.sessions);
    v("tuned", self.tuned);
  }
};

struct Promotion {
  std::int64_t version = 1;
  std::string campaign, date;  // "2026-11-21 07:30", UTC
  std::int64_t round = 0;      // of the campaign, that found it
  std::string journal_hash;    // the last one: "ridge campaign verify" prints it
  std::string op, backend, device;
  std::string kernel;  // its source, from the top of the tree
  std::string implementation, configuration;
  std::map<std::string, std::int64_t> values;  // of tunables, as the campaign set them
  bool new_configuration = false, new_source = false;
  std::string source_before, source_after;  // SHA-256 of the kernel's text without its configurations
  double speedup = 1, low = 1, high = 1;  // over the kernel that the campaign began with; low and high: as it measured
  std::vector<PromotedShape> shapes;
  std::vector<TextEdit> edits;  // in the order they were made; the two files of the promotion itself are not among them
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("campaign", self.campaign);
    v("date", self.date);
    v("round", self.round);
    v("journal_hash", self.journal_hash);
    v("op", self.op);
    v("backend", self.backend);
    v("device", self.device);
    v("kernel", self.kernel);
    v("implementation", self.implementation);
    v("configuration", self.configuration);
    v("values", self.values);
    v("new_configuration", self.new_configuration);
    v("new_source", self.new_source);
    v("source_before", self.source_before);
    v("source_after", self.source_after);
    v("speedup", self.speedup);
    v("low", self.low);
    v("high", self.high);
    v("shapes", self.shapes);
    v("edits", self.edits);
  }
};

// Files of a tree that is being edited, as they were: written before the first of them changes and removed after the
// last, so that a process that was killed between leaves what puts them back.
struct PendingFile {
  std::string path;
  bool existed = true;
  std::string text;
  static void fields(auto& v, auto& self) {
    v("path", self.path);
    v("existed", self.existed);
    v("text", self.text);
  }
};
struct PendingEdits {
  std::int64_t version = 1;
  std::string head;  // the commit that was checked out; empty: none
  std::vector<PendingFile> files;
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("head", self.head);
    v("files", self.files);
  }
};

}  // namespace ridge::record
