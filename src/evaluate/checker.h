// Everything there is to check about a subject on one case, short of timing it.
//
//   plain       fresh content, twice at the same addresses; the same content again, in place (are the bits the same?)
//               and moved elsewhere; dozens of further calls as timed ones are; every family of inputs
//   padded      rows further apart than they are long
//   held-out    shapes drawn in secret from the operator's domain
//   sanitizer   candidates: rebuilt with AddressSanitizer and UBSan, on reduced shapes
//
// Each runs in a process of its own; the first thing wrong ends the check of the case.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluate/check_policy.h"
#include "evaluate/subject_runner.h"
#include "evaluate/tasks.h"
#include "record/measurement.h"

namespace ridge::evaluate {

class Checker {
 public:
  Checker(const Job& job, const Subject& subject, const ops::Operator& op, const std::vector<ops::Problem>& problems)
      : job_(job), subject_(subject), op_(op), problems_(problems) {}
  // Everything secret about it follows from the job's seed, the case and the lane.

  record::CheckRow check(std::size_t index);

 private:
  Verdict plain(std::size_t index, record::CheckRow& row);
  Verdict repeat(SubjectRunner& runner, record::CheckRow& row);
  Verdict again(SubjectRunner& runner, record::CheckRow& row);
  // For candidates; libraries are trusted with what they read.
  Verdict fence(SubjectRunner& runner, Edge edge);
  Verdict altered(std::size_t index, SubjectRunner& runner, record::CheckRow& row);
  Verdict families(std::size_t index, SubjectRunner& runner, record::CheckRow& row);
  Verdict padded(std::size_t index, record::CheckRow& row);
  Verdict held_out(std::size_t index, record::CheckRow& row);
  // One call of each, in a process of their own.
  Verdict on_shapes(const std::vector<HeldOut>& shapes, const Secrets& own, record::CheckRow& row);
  Verdict sanitizer(std::size_t index, record::CheckRow& row);
  // Cases that the operator draws; fewer when it has none to offer or the subject refuses them.
  [[nodiscard]] std::vector<ops::Problem> drawn(const ops::Problem& problem, ops::Variation variation, int count,
                                                Secrets secrets) const;
  [[nodiscard]] Secrets secrets(std::size_t index, std::string_view lane) const;
  // Whether a failure is a case that the subject may decline.
  [[nodiscard]] bool declines(const Verdict& verdict) const;
  // The subject built for the sanitizer, once; empty with the reason in `no_sanitizer_`.
  const std::optional<Subject>& sanitized();

  const Job& job_;
  const Subject& subject_;
  const ops::Operator& op_;
  const std::vector<ops::Problem>& problems_;
  const CheckLimits limits_ = limits_of_processor();
  std::optional<Subject> sanitized_;
  std::string no_sanitizer_;
  bool sanitizer_tried_ = false;
};

}  // namespace ridge::evaluate
