// Slurm: sbatch takes arrays of jobs, one squeue tells of all of them, scancel stops them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "execute/cluster.h"

namespace ridge::execute {

struct SlurmOptions {
  std::filesystem::path program;  // ridge, on the nodes
  // Words of sbatch: {"--partition=gpu", "--gres=gpu:1"}.
  std::vector<std::string> words;
  std::size_t jobs = 1;  // at once, waiting ones with them
  JobSharing sharing = {};
};

// kUnsupported where Slurm's programs are not on the path.
Result<std::unique_ptr<Cluster>> make_slurm(SlurmOptions options);

// One line of `squeue -o "%i|%j|%T|%N|%r"` as a job; none for a line of something else.
std::vector<ClusterJob> parse_squeue(std::string_view output, std::string_view prefix);
// What `scontrol -o show job` says of a job that is gone.
JobFate parse_fate(std::string_view output);
// Whether a message of sbatch or squeue means that the controller cannot be reached just now.
bool is_unreachable(std::string_view message);

}  // namespace ridge::execute
