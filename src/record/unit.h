// A unit of work that runs on another machine: one request of record/worker.h, and the files of its folder
// (execute/unit.h says which is where).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/worker.h"

namespace ridge::record {

// What is asked of the other machine.
struct UnitOrder {
  std::int64_t version = 1;
  std::string key;            // the digest of its content
  std::string ridge;          // the version of the program that asks; another one refuses
  std::string who;            // shown to those who wait for the same device
  double wait_for_quiet = 0;  // seconds, before it measures
  WorkerRequest request;
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("key", self.key);
    v("ridge", self.ridge);
    v("who", self.who);
    v("wait_for_quiet", self.wait_for_quiet);
    v("request", self.request);
  }
};

// Where it ran. Two places are the same device when host, processor and driver are.
struct UnitPlace {
  std::string node;       // as the scheduler names it, so that it can be asked for again
  std::string host;       // as it names itself
  std::string processor;  // its model
  std::string driver;     // of its GPUs; empty: none
  static void fields(auto& v, auto& self) {
    v("node", self.node);
    v("host", self.host);
    v("processor", self.processor);
    v.optional("driver", self.driver);
  }
};

// Which attempt is under way: number `index` of a batch that the scheduler knows by its name.
struct UnitSubmission {
  std::int64_t attempt = 0;
  std::string batch;
  std::int64_t index = 0;
  std::int64_t time = 0;  // Unix seconds, by the clock of the machine that asks
  static void fields(auto& v, auto& self) {
    v("attempt", self.attempt);
    v("batch", self.batch);
    v("index", self.index);
    v("time", self.time);
  }
};

struct UnitTurn {
  std::string key;
  std::int64_t attempt = 0;
  static void fields(auto& v, auto& self) {
    v("key", self.key);
    v("attempt", self.attempt);
  }
};

// Units that were handed to the scheduler together.
struct UnitBatch {
  std::int64_t version = 1;
  std::string nonce;  // stands in a file of the shared folder, too
  std::vector<UnitTurn> units;
  // Jobs that work through the units together, each taking one after the other; 0: every unit has a job of its number.
  std::int64_t jobs = 0;
  std::int64_t most = 0;  // units that one of these jobs takes; 0: as many as it finds
  double stay = 0;        // seconds after which it takes no further one; 0: no limit
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("nonce", self.nonce);
    v("units", self.units);
    v.optional("jobs", self.jobs);
    v.optional("most", self.most);
    v.optional("stay", self.stay);
  }
};

// Who has a unit of a batch that several jobs share.
struct UnitTaker {
  std::int64_t job = 0;  // its number; -1: the side that handed the batch over took the unit back
  static void fields(auto& v, auto& self) { v("job", self.job); }
};

struct UnitStart {
  std::int64_t attempt = 0;
  UnitPlace place;
  std::int64_t pid = 0;
  double clock_offset = 0;  // seconds that the clock of the shared folder is ahead of this machine's
  static void fields(auto& v, auto& self) {
    v("attempt", self.attempt);
    v("place", self.place);
    v("pid", self.pid);
    v("clock_offset", self.clock_offset);
  }
};

struct UnitResult {
  std::int64_t version = 1;
  std::int64_t attempt = 0;
  UnitPlace place;
  double took = 0;    // seconds from the start of the worker to its answer
  double waited = 0;  // of these, for the device and for a quiet machine
  double clock_offset = 0;
  WorkerResponse response;
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("attempt", self.attempt);
    v("place", self.place);
    v("took", self.took);
    v("waited", self.waited);
    v("clock_offset", self.clock_offset);
    v("response", self.response);
  }
};

// Why an attempt has no response.
struct UnitFailure {
  std::int64_t attempt = 0;
  UnitPlace place;
  std::string code;  // an ErrorCode by its name
  std::string message, hint;
  bool retry = false;  // another attempt may fare better
  static void fields(auto& v, auto& self) {
    v("attempt", self.attempt);
    v("place", self.place);
    v("code", self.code);
    v("message", self.message);
    v.optional("hint", self.hint);
    v("retry", self.retry);
  }
};

// One line of a script that stands in for a worker.
struct ScriptedAnswer {
  WorkerTask task = WorkerTask::kDescribe;
  WorkerResponse response;
  static void fields(auto& v, auto& self) {
    v("task", self.task);
    v("response", self.response);
  }
};

}  // namespace ridge::record
