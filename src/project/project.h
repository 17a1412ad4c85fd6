// A project that is not Ridgeline's: which files may change, and how it builds, tests and measures itself. Described by
// a ridge-project.toml in its folder, which docs/projects.md explains key by key.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "record/candidate.h"
#include "record/case.h"
#include "record/metric.h"
#include "ridge/result.h"

namespace ridge::project {

using Command = std::vector<std::string>;  // an argument list; no shell is involved

struct Project {
  std::filesystem::path root;  // the folder that holds ridge-project.toml
  std::string digest;          // SHA-256 of that file's text
  std::string op, backend = "cpu", language = "c++";
  std::vector<std::string> kernel;       // files that may change, relative to the root
  std::string artifact;                  // what a build makes; empty: nothing is built, the sources are the artefact
  std::string device;                    // that the commands run on; empty: asked (execute/project_device.h)
  std::vector<std::string> leave_out;    // files and folders that the private copies do without, relative to the root
  std::vector<std::string> extract;      // what a campaign in workspace mode builds candidates in; empty: everything
  std::vector<std::string> only;         // files and folders that copies hold; empty: everything. Not in the file
  std::string branch;                    // of a campaign's commits; empty: its own
  std::vector<std::string> constraints;  // what the user wants to hold, in words, for every proposer

  Command prefix;                              // begins every command already: ssh, a container; may be empty
  Command build, test, benchmark, acceptance;  // build and acceptance may be empty
  Command training;                            // optional: writes the trace of training.h to {csv}
  Command profile;                             // optional: writes a profiler's report to {csv}
  Command reference;                           // optional: checks {out}; never sees the kernel's files
  std::vector<std::string> writes;             // files and folders that the commands may change, relative to the root
  Command fresh;                               // added to `benchmark`: every repeat gets tensors of its own
  std::string test_summary;                    // regular expression with two numbers: how many passed, how many failed
  double timeout = 600.0;                      // seconds, for each command

  std::string header;                                        // of the CSV, byte for byte
  std::string metric_column, time_column;                    // forward: throughput, and milliseconds
  std::string backward_metric_column, backward_time_column;  // empty: the table has none
  std::string p50_column, p99_column;                        // of the forward time, milliseconds; empty: none
  double metric_unit = 1e12;                                 // of the metric columns, per second
  double peak = 0.0;                // of the device, in the metric's unit: no time may be shorter than this allows
  double min_snr_db = 0.0;          // of every column NAME_snr; 0: none
  double snr_margin_db = 0.0;       // that they may be below the baseline's; 0: the campaign's own
  double launches = 0.0;            // of every shape in one process of the benchmark; 0: not known
  std::vector<std::string> shapes;  // labels that the benchmark knows
  record::Metric metric;            // what a campaign on it is judged by
};

inline constexpr const char* kProjectFile = "ridge-project.toml";

// Reads a file or the file in a folder. Errors name the key, what it holds and what is allowed.
Result<Project> read_project(const std::filesystem::path& path);
Result<Project> parse_project(std::string_view text, const std::filesystem::path& root);

// The project whose copies hold `extract`, its kernel and its ridge-project.toml alone; itself where it names nothing.
Project extracted_part(Project project);

// The kernel as it is in the project's folder.
Result<record::Candidate> baseline_of(const Project& project);

// `command` with {csv}, {shapes} (joined by commas), {root}, {out} and {seed} replaced.
struct Fill {
  std::string csv, shapes, root;
  std::string out = {}, seed = {};
};
Command filled(const Command& command, const Fill& fill);

// The frozen headers by name: "gemm", "memory".
std::string_view frozen_header(std::string_view schema);

// What the throughput columns count: FLOP, bytes, or what their name says.
record::Quantity quantity_of(const Project& project);

// A CSV label as a case of the operator, and back: "small" is the case `label=small`.
Result<record::Case> case_of(const std::string& op, const std::string& label);
std::string label_of(const record::Case& one);

}  // namespace ridge::project
