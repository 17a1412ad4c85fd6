// What an answer of a language model took. The agent says so; the engine prints it and rests nothing on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ridge::record {

struct Usage {
  std::string model;  // empty: not said
  std::int64_t turns = 0, input_tokens = 0, output_tokens = 0;
  std::optional<double> usd;  // absent: not said

  Usage& operator+=(const Usage& other) {
    if (model.empty()) model = other.model;
    if (!other.model.empty() && model != other.model) model = "several";
    turns += other.turns;
    input_tokens += other.input_tokens;
    output_tokens += other.output_tokens;
    if (other.usd) usd = usd.value_or(0) + *other.usd;
    return *this;
  }
  static void fields(auto& v, auto& self) {
    v.optional("model", self.model);
    v.optional("turns", self.turns);
    v.optional("input_tokens", self.input_tokens);
    v.optional("output_tokens", self.output_tokens);
    v.optional("usd", self.usd);
  }
};

}  // namespace ridge::record
