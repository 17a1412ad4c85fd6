// Which counter of which tool is which quantity. The names on the left are what the classifier, the campaign's rules
// and people use:
//
//   occupancy_fraction                 resident warps over what the unit holds, achieved
//   occupancy_limit_fraction           the same, as registers, shared memory and block size allow
//   dram_fraction l2_fraction l1_fraction    throughput of a memory level over its peak
//   tensor_fraction fma_fraction issue_fraction   cycles a pipe was busy; issue slots used
//   l2_hit_fraction bank_conflict_fraction
//   load_efficiency store_efficiency   bytes used over bytes moved in global accesses: 1 for any full-width coalesced
//                                      access, whatever its width in the instruction
//   local_accesses                     loads and stores of local (spilled or indexed) memory
//   waves                              waves of blocks over the device
//   stall_memory stall_barrier stall_shared stall_pipe   warps waiting for it per issued instruction
//   registers shared_bytes dram_bytes instructions_per_cycle
//   retiring_fraction front_end_fraction bad_speculation_fraction back_end_fraction   issue slots of a processor, or
//   for
//                                      the ends cycles in which they stood still: what became of them
//   memory_stall_fraction              issue slots of a processor that waited for loads and stores, from any cache
//   llc_misses_per_instruction l2_misses_per_instruction branch_misses_per_instruction
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "profile/capture.h"
#include "profile/profile.h"
#include "record/profile.h"

namespace ridge::profile {

// Metrics of the launches, in the order of the list above, and the names of those that this tool has and none of the
// launches showed.
void fill_metrics(const Capture& capture, const std::vector<const Launch*>& launches, const Options& options,
                  record::ProfileReport& report);

}  // namespace ridge::profile
