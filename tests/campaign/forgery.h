// A forger who knows the format: a journal changed and chained anew from its first line.
#pragma once

#include <functional>

#include "world.h"

namespace ridge::campaign::test {

inline void write_chain(const std::filesystem::path& journal, std::vector<record::Event> events) {
  std::string text, previous(64, '0');
  for (std::size_t i = 0; i < events.size(); ++i) {
    events[i].sequence = static_cast<std::int64_t>(i);
    events[i].previous = previous;
    events[i].hash = record::event_hash(events[i]);
    previous = events[i].hash;
    text += record::to_line(events[i]) + "\n";
  }
  ASSERT_TRUE(write_file_durably(journal, text));
}

// Halts the campaign where the last round was measured, bends its evaluation, and removes what was rendered later.
inline void bend_last_evaluation(const std::filesystem::path& campaign,
                                 const std::function<void(record::Evaluation&)>& bend) {
  std::vector<record::Event> events = record::read_journal(campaign / "journal.jsonl")->events;
  while (!events.empty() && events.back().kind != record::EventKind::kEvaluated) events.pop_back();
  ASSERT_FALSE(events.empty());
  auto evaluated = *record::from_json<record::Evaluated>(events.back().payload);
  bend(evaluated.evaluation);
  events.back().payload = record::to_json(evaluated);
  write_chain(campaign / "journal.jsonl", std::move(events));
  for (const char* rendered : {"logs", "rounds", "memory", "report", "verified_ineffective.jsonl"}) {
    std::filesystem::remove_all(campaign / rendered);
  }
}

inline void for_each_launch(record::Session& session, const std::function<void(double&)>& change, char arm = 0) {
  for (record::ShapeSamples& shape : session.shapes) {
    for (record::Quad& quad : shape.quads) {
      for (std::size_t block = 0; block < quad.blocks.size(); ++block) {
        if (arm != 0 && quad.order[block] != arm) continue;
        for (double& seconds : quad.blocks[block]) change(seconds);
      }
    }
  }
}

// Makes every launch of the candidate faster by a factor.
inline void scale_candidate(record::Session& session, double factor) {
  for_each_launch(
      session, [=](double& seconds) { seconds /= factor; }, 'B');
}

// Repeats the last session until there are so many, each with the next number and a time of its own.
inline void repeat_sessions(record::Evaluation& evaluation, std::size_t count) {
  std::vector<record::Session>& sessions = evaluation.sessions;
  while (sessions.size() < count) {
    sessions.push_back(sessions.back());
    sessions.back().role = "confirm";
    sessions.back().index = static_cast<std::int64_t>(sessions.size()) - 1;
    if (sessions.back().guards.contains("began")) sessions.back().guards["began"] += 10;
  }
}

}  // namespace ridge::campaign::test
