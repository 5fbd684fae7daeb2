// A plan as one line of text, the way the command line takes and prints it: "tp=1,pp=8,ep=32,micro_batch=2".
// Keys are the JSON words of a plan: batch tp cp pp dp ep etp virtual_stages micro_batch recompute zero
// schedule precision optimizer. Order is free; what is left out comes from the defaults.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/plan.hpp"

namespace tessera {

/// The keys, in the order in which to_text() writes them.
const std::vector<std::string>& plan_keys();

/// A plan and the keys that the text itself set (the rest are defaults).
struct PlanText {
  Plan plan;
  std::vector<std::string> given;
  bool has(const std::string& key) const;
};

/// Reads the line and nothing more: no degree is derived. Throws InputError for an unknown key (with the
/// nearest one), a key given twice, a value that is no positive integer (zero: 0..3) or no known word.
PlanText read_plan_text(const std::string& text, const Plan& defaults);

/// Reads the line and completes it:
///  - virtual_stages > 1 without `schedule` means the interleaved schedule;
///  - `dp` left out with devices > 0: devices / (tp*cp*pp); an InputError where that is not whole;
///  - `etp` left out with etp_follows_tp: tp (stacks whose default it is; pass false for a dense model).
/// Whether the plan is legal for an architecture and a stack is for search/legality.hpp to say.
Plan parse_plan(const std::string& text, const Plan& defaults, std::int64_t devices = 0,
                bool etp_follows_tp = false);

/// "tp=1,cp=1,pp=8,..." with every key; read_plan_text() gives the same plan back.
std::string to_text(const Plan&);

}  // namespace tessera
