// What the batched path keeps of an architecture on a cluster: tables by the digits that decide them. Of block_cost.cpp only.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "model/lane_kernel.hpp"
#include "tessera/step_cost.hpp"

namespace tessera {

// Keys of the tables: degrees are at most 2^20, indices of micro-batches at most 2^10.
inline std::uint64_t shard_key(std::size_t micro_batch, int tp, int cp) {
  return (std::uint64_t(micro_batch) << 42) | (std::uint64_t(tp) << 21) | std::uint64_t(cp);
}

// What depends on tp, cp and the micro-batch only; rows by recomputation mode.
struct DensePieces {
  Piece attention;
  TimesRows dense;                        // a dense layer
  SavedRows dense_saved;
  std::array<PartMemory, kLanes> memory;  // by mode, without MoE layers
  Times<double> embedding, head;
  double least_forward, least_backward;   // of a dense layer over the modes
};

// One (shard, micro-batch): every recomputation mode side by side.
struct ShardCost {
  bool ready = false;
  TimesRows moe, moe_overlapped;          // overlapped: the schedule hides the expert exchange (DualPipe)
  SavedRows moe_saved;
  alignas(32) Row coupling;               // of the stages per log2(1+pp) [s]
  const DensePieces* pieces;
  double least_forward, least_backward;   // of a MoE layer over modes and schedules
  std::array<PartMemory, kLanes> memory;  // by mode
};

struct ShardId {
  int tp, cp, ep, etp;
  bool operator==(const ShardId&) const = default;
};
struct ShardHash {
  std::size_t operator()(const ShardId& s) const {
    std::uint64_t h = std::uint64_t(s.tp) * 0x9E3779B97F4A7C15ull;
    h = (h ^ std::uint64_t(s.cp)) * 0xBF58476D1CE4E5B9ull;
    h = (h ^ std::uint64_t(s.ep)) * 0x94D049BB133111EBull;
    return std::size_t((h ^ std::uint64_t(s.etp)) * 0x9E3779B97F4A7C15ull);
  }
};

// Places at which the peak of a layout can lie: both ends of every run of equal devices.
struct Place {
  std::size_t run;
  int stage;
};
struct Placed {
  Layout layout;
  std::vector<Place> devices, pairs;
  // Layers of the model, and of the parts before a device in the mean over the devices: for bounds.
  double dense = 0, moe = 0, dense_before = 0, moe_before = 0, embedding_before = 0;
};

inline void add_means(Placed& p, int pp) {
  int part = 0;
  for (const PartRun& run : p.layout.parts) {
    p.dense += run.count * run.dense;
    p.moe += run.count * run.moe;
    // Part j < pp lies before the devices j+1 .. pp-1.
    double share = 0;
    for (int k = 0; k < run.count && part < pp; ++k, ++part) share += double(pp - 1 - part) / pp;
    p.dense_before += share * run.dense;
    p.moe_before += share * run.moe;
    if (run.first) p.embedding_before += share;
  }
}

inline std::vector<Place> places_of(const std::vector<DeviceRun>& runs) {
  std::vector<Place> out;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    out.push_back({i, runs[i].stage});
    if (runs[i].count > 1) out.push_back({i, runs[i].stage + runs[i].count - 1});
  }
  return out;
}

// What a variant (schedule and virtual stages) needs in the selected block, made when it is first asked for.
struct VariantState {
  bool ready = false;
  const Placed* placed = nullptr;
  const std::vector<DeviceRun>* runs = nullptr;
  const std::vector<Place>* places = nullptr;
  std::vector<double> states;              // bytes of parameters by (zero, place)
  std::vector<double> optimizer;           // [s] by zero
  std::vector<std::uint8_t> known;         // by zero: states and optimizer are there
};

inline double least_of(const Row& row) { return *std::min_element(row, row + kLanes); }
inline double least_backward(const TimesRows& t) {
  double least = t.input_gradient[0] + t.weight_gradient[0];
  for (int lane = 1; lane < kLanes; ++lane) least = std::min(least, t.input_gradient[lane] + t.weight_gradient[lane]);
  return least;
}

inline bool has_dualpipe(const InnerAxes& axes, const Stack& stack) {
  return std::any_of(axes.variant.begin(), axes.variant.end(), [](const Variant& v) { return v.schedule == Schedule::dualpipe; }) &&
         std::find(stack.schedules.begin(), stack.schedules.end(), Schedule::dualpipe) != stack.schedules.end();
}

}  // namespace tessera
