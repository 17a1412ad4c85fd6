// One look at many candidates, by several devices at once: the candidates are dealt to them, each looks at its own in
// turn with the incumbent, and the rows are put together as if one device had looked at all.
#pragma once

#include <cstddef>
#include <vector>

#include "record/worker.h"
#include "ridge/result.h"

namespace ridge::execute {

// The requests for so many devices; the request itself where one device does as well: it has too few candidates to be
// worth another worker's start, or no incumbent that would make devices comparable.
std::vector<record::WorkerRequest> deal_screen(const record::WorkerRequest& request, std::size_t devices);

// Rows in the order of the request's candidates, then the incumbent's unless it is one of them. Latencies and scores of
// a device are scaled by the incumbent's there to those of the first device that ran it. A candidate of a device that
// did not answer, or did not run the incumbent while others did, has a row with the reason. What no device answered is
// the error of the first.
Result<record::WorkerResponse> join_screens(const record::WorkerRequest& request,
                                            const std::vector<record::WorkerRequest>& parts,
                                            std::vector<Result<record::WorkerResponse>> answers);

}  // namespace ridge::execute
