#include "toolchain/flags.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace ridge::toolchain {
namespace {

constexpr std::array<std::string_view, 9> kExact = {"-O0",   "-O1", "-O2",      "-O3",     "-Ofast",
                                                    "-Wall", "-w",  "-fopenmp", "-pthread"};

// Machine options: -mavx512f, -mno-avx, -mprefer-vector-width=512, -mtune=..., -march=....
// Code generation options: -funroll-loops, -ffast-math, -fno-tree-vectorize, ....
constexpr std::array<std::string_view, 2> kPrefixes = {"-m", "-f"};

// -f options that load code, write files, instrument, or change what is linked.
constexpr std::array<std::string_view, 13> kRefused = {
    "-fplugin",    "-fdump",        "-fprofile", "-fsanitize",   "-fuse-ld",   "-flto",         "-ftest",
    "-fcallgraph", "-fstack-usage", "-fsave",    "-finstrument", "-fopt-info", "-fpreprocessed"};

bool plain_characters(std::string_view flag) {
  return std::all_of(flag.begin(), flag.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '=' || c == '.' || c == '_' || c == '+';
  });
}

}  // namespace

bool flag_allowed(std::string_view flag) {
  const auto starts = [flag](std::string_view prefix) { return flag.starts_with(prefix); };
  if (!plain_characters(flag)) return false;
  if (std::find(kExact.begin(), kExact.end(), flag) != kExact.end()) return true;
  if (flag.starts_with("--param=")) return flag.size() > 8;
  if (std::any_of(kRefused.begin(), kRefused.end(), starts)) return false;
  return flag.size() > 2 && std::any_of(kPrefixes.begin(), kPrefixes.end(), starts);
}

}  // namespace ridge::toolchain
