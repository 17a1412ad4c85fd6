#!/usr/bin/env python3
"""Three ideas for rowsum, one per round: a good one, one that is wrong, one that does nothing.  --proposer command:.../propose.py"""
import json, sys

request = json.load(sys.stdin)
path = request["incumbent"]["sources"][0]["path"]
HEAD = '#include "rowsum.h"\n\nvoid rowsum(const float* in, std::size_t rows, std::size_t columns, float* out) {\n'
ALONG_ROWS = HEAD + """  for (std::size_t i = 0; i < rows; ++i) {
    float sums[8] = {};  // independent, so that an addition need not wait for the one before
    std::size_t j = 0;
    for (; j + 8 <= columns; j += 8) {
      for (int k = 0; k < 8; ++k) sums[k] += in[i * columns + j + k];
    }
    float sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (; j < columns; ++j) sum += in[i * columns + j];
    out[i] = sum;
  }
}
"""
FORGETS_THE_TAIL = ALONG_ROWS.replace("    for (; j < columns; ++j) sum += in[i * columns + j];\n", "")
IDEAS = {2: ("walk along the rows, eight sums at once", "memory", "layout", 0.5, ALONG_ROWS),
         3: ("leave out the tail", "compute", "algorithm", 0.05, FORGETS_THE_TAIL)}

if request["round"] not in IDEAS or request["last_error"]:
    answer = {"version": 1, "exhausted": True, "reason": "three ideas were all"}
else:
    title, bottleneck, category, gain, text = IDEAS[request["round"]]
    lost = [r["round"] for r in request["history"] if not r["accepted"]]
    answer = {"version": 1, "changes": [{"sources": [{"path": path, "text": text}]}],
              "hypothesis": {"title": title, "mechanism": title, "bottleneck": bottleneck, "category": category,
                             "expected_gain": gain, "reasoning": "each line of the cache is used whole",
                             "risks": ["short rows"], "verification_signal": "more GB/s on every shape",
                             "planned_files": [path], **({"informed_by": lost[-1]} if lost else {})}}
json.dump(answer, sys.stdout)
