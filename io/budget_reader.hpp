// Presets and files of the budget: goodput, critical batch, data repetition, over-training flags, imbalance,
// power and prices (model/presets/goodput, model/presets/budget).
#pragma once
#include <string>
#include <vector>

#include "tessera/budget.hpp"

namespace tessera {

/// A number in (0, 1], a preset ("none", "llama3", "meta-rsc1", ...), a file (*.toml), or either with changes:
/// "llama3,blocking_seconds=60". Throws InputError.
GoodputModel read_goodput(const std::string& spec);
std::vector<std::string> goodput_names();

/// "moe" or "dense".
CriticalBatch read_critical_batch(const std::string& name);
Repetition read_repetition();
OvertrainingFlags read_overtraining_flags();
/// `balancing` is "forced", "loss-free", "auxiliary-loss" or "none".
ImbalanceModel read_imbalance(const std::string& balancing);
/// By device name ("B200") or generation prefix; throws InputError listing the known ones.
PowerModel read_power(const std::string& device);
Price read_price(const std::string& device);

}  // namespace tessera
