// What stands beside the journal of an anchored campaign: signatures of its lines, and time stamps of its heads.
#pragma once

#include <cstdint>
#include <string>

namespace ridge::record {

// One line of signatures.jsonl. A line of the journal is signed before it is written, so after a crash there may be a
// signature of a line that never was, and a later one with the same sequence.
struct Signature {
  std::int64_t sequence = 0;
  std::string hash;       // of the event
  std::string key;        // the public key, 64 hex digits
  std::string signature;  // of signed_text(), 128 hex digits
  std::string key_file;   // where the private key was, on the first line and when it changes; empty: as before
  static void fields(auto& v, auto& self) {
    v("sequence", self.sequence);
    v("hash", self.hash);
    v("key", self.key);
    v("signature", self.signature);
    v.optional("key_file", self.key_file);
  }
};

// The bytes that are signed: no signature of anything else can pass for one of a journal's line.
inline std::string signed_text(std::int64_t sequence, const std::string& hash) {
  return "ridge journal line 1\n" + std::to_string(sequence) + "\n" + hash + "\n";
}

// One line of timestamps.jsonl: what an external command said of a head of the journal.
struct Timestamp {
  std::int64_t sequence = 0;
  std::string hash, time, command;
  std::string problem;  // why there is no stamp; empty: there is one
  std::string text;     // the command's output, when it is UTF-8
  std::string hex;      // else
  static void fields(auto& v, auto& self) {
    v("sequence", self.sequence);
    v("hash", self.hash);
    v("time", self.time);
    v("command", self.command);
    v.optional("problem", self.problem);
    v.optional("text", self.text);
    v.optional("hex", self.hex);
  }
};

}  // namespace ridge::record
