// The shipped database, and copies of it with one thing changed.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/files.h"
#include "hardware/lint.h"
#include "hardware/spec.h"
#include "places.h"

namespace ridge::hardware {

inline std::filesystem::path shipped_data() { return source_dir() / "data"; }

inline const Database& shipped() {
  static const Result<Database> database = Database::open(shipped_data());
  if (!database) throw std::runtime_error(database.error().text());
  return *database;
}

// A private copy of the database in which texts are replaced.
class Copy {
 public:
  Copy() : directory_(TempDir::create("ridge-hardware").value()) {
    namespace fs = std::filesystem;
    for (const char* folder : {"hardware", "wiki"}) {
      fs::copy(shipped_data() / folder, directory_.path() / folder, fs::copy_options::recursive);
    }
  }

  // Every occurrence of `from` in the file; fails the test when there is none, so that no planted error misses.
  void replace(const std::string& file, const std::string& from, const std::string& to) {
    const auto path = directory_.path() / file;
    std::string text = read_file(path).value();
    ASSERT_NE(text.find(from), std::string::npos) << file << " does not contain: " << from;
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
    ASSERT_TRUE(write_file_durably(path, text));
  }
  void remove(const std::string& file) { std::filesystem::remove(directory_.path() / file); }
  // What a forger would do after an edit: renew the hashes.
  void relock() {
    const Result<Wiki> wiki = Wiki::open(directory_.path() / "wiki");
    ASSERT_TRUE(wiki) << wiki.error().text();
    ASSERT_TRUE(write_file_durably(directory_.path() / "wiki" / "pages.sha256", wiki->lock()));
  }
  Result<Database> open() const { return Database::open(directory_.path()); }

 private:
  TempDir directory_;
};

inline std::string told(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings)
    text += f.file + ":" + std::to_string(f.line) + ": " + f.rule + ": " + f.message + "\n";
  return text;
}

}  // namespace ridge::hardware
