// Machines that are reached by the program ssh, without a shared folder: the order of a unit is sent, and what it left
// is fetched. The process there goes on when the connection is lost.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "execute/cluster.h"

namespace ridge::execute {

struct SshOptions {
  std::vector<std::string> hosts;  // as ssh knows them
  std::string program = "ridge";   // on the hosts
  std::string folder;              // there; relative to the home folder
  std::string config;              // of ssh (-F); empty: the user's own
  std::size_t slots = 1;           // units at once on one host
  bool temporary = false;          // the folder there goes with this object
  double patience = 600;           // seconds that a host may not be reached before its units count as lost
};

// kUnsupported where there is no ssh on the path.
Result<std::unique_ptr<Cluster>> make_ssh(SshOptions options, std::filesystem::path root);

}  // namespace ridge::execute
