// What the batched path keeps of an architecture on a cluster: tables by the digits that decide them. Of block_*.cpp only.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <vector>

#include "model/lane_kernel.hpp"
#include "tessera/step_cost.hpp"

namespace tessera {

// Keys of the tables: degrees are at most 2^20, indices of micro-batches at most 2^10.
inline std::uint64_t shard_key(std::size_t micro_batch, int tp, int cp) {
  return (std::uint64_t(micro_batch) << 42) | (std::uint64_t(tp) << 21) | std::uint64_t(cp);
}

// What depends on tp and the tokens on a rank only.
struct TokenPieces {
  Piece projections, dense_ffn, beside_experts, least_experts;
  Times<double> embedding, head;
};

// What depends on tp, cp and the micro-batch only; rows by recomputation mode.
struct DensePieces {
  const TokenPieces* tokens;
  Piece attention;
  Times<double> least_dense, least_moe;   // bounds over modes, expert meshes and schedules; forward and input_gradient alone
  bool has_modes = false;                 // what follows: bounds do without
  TimesRows dense;                        // a dense layer
  SavedRows dense_saved;
  std::array<PartMemory, kLanes> memory;  // by mode, without MoE layers
};

// One (shard, micro-batch): every recomputation mode side by side.
struct ShardCost {
  const DensePieces* pieces;
  TimesRows moe, moe_overlapped;          // overlapped: the schedule hides the expert exchange (DualPipe)
  SavedRows moe_saved;
  alignas(32) Row coupling;               // of the stages per log2(1+pp) [s]
  std::array<PartMemory, kLanes> memory;  // by mode
};

// The routed experts on it, and bounds of a MoE layer over the modes: forward and input_gradient alone.
struct ShardFloor {
  bool known = false;
  const Piece* experts = nullptr;         // once asked for
  Directions least, least_overlapped;
};

// By micro-batch, each made when it is first asked for.
struct ShardTable {
  std::pmr::vector<ShardFloor> floors;
  std::pmr::vector<ShardCost*> costs;
  ShardTable(std::size_t micro_batches, std::pmr::memory_resource* memory) : floors(micro_batches, memory), costs(micro_batches, nullptr, memory) {}
};

// Those of one tp and cp by expert mesh: few, so that looking through them beats hashing.
class ShardRow {
 public:
  explicit ShardRow(std::pmr::memory_resource* memory) : keys_(memory), tables_(memory) {}
  ShardTable& at(int ep, int etp, std::size_t micro_batches, std::pmr::memory_resource* memory) {
    const std::uint64_t key = (std::uint64_t(ep) << 32) | std::uint64_t(etp);
    const auto found = std::find(keys_.begin(), keys_.end(), key);
    if (found != keys_.end()) return tables_[static_cast<std::size_t>(found - keys_.begin())];
    keys_.push_back(key);
    return tables_.emplace_back(micro_batches, memory);
  }

 private:
  std::pmr::vector<std::uint64_t> keys_;
  std::pmr::deque<ShardTable> tables_;
};

// Places at which the peak of a layout can lie: both ends of every run of equal devices.
struct Place {
  std::size_t run;
  int stage;
};
struct Placed {
  Layout layout;
  std::vector<Place> devices, pairs;
  std::vector<FloorPlace> device_floors, pair_floors;
};

// The last device of every run, with what the path has before it.
inline std::vector<FloorPlace> floors_of(const std::vector<DeviceRun>& runs, const std::vector<PartRun>& parts, double parts_each) {
  std::vector<FloorPlace> out;
  for (const DeviceRun& d : runs) {
    FloorPlace f{d.dense, d.moe, d.first ? 1.0 : 0.0, d.last ? 1.0 : 0.0, parts_each, 0, 0, 0, 0};
    int left = d.stage + d.count - 1;
    f.parts_before = left;
    for (const PartRun& p : parts) {
      const int count = std::min(left, p.count);
      f.dense_before += count * p.dense;
      f.moe_before += count * p.moe;
      if (count > 0 && p.first) f.first_before = 1;
      if ((left -= count) == 0) break;
    }
    out.push_back(f);
  }
  return out;
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
  std::uint64_t block = 0;                 // serial number of the block it was made for
  const Placed* placed = nullptr;
  const std::vector<DeviceRun>* runs = nullptr;
  const std::vector<Place>* places = nullptr;
  std::vector<double> states;              // bytes of parameters by (zero, place)
  std::vector<double> optimizer;           // [s] by zero
  std::vector<std::uint8_t> known;         // by zero: states and optimizer are there
};

// As times, for the forms of bounds.
inline Times<double> bound_of(const Directions& d) { return {d.forward, d.backward, 0, {}}; }

inline bool has_dualpipe(const InnerAxes& axes, const Stack& stack) {
  return std::any_of(axes.variant.begin(), axes.variant.end(), [](const Variant& v) { return v.schedule == Schedule::dualpipe; }) &&
         std::find(stack.schedules.begin(), stack.schedules.end(), Schedule::dualpipe) != stack.schedules.end();
}

}  // namespace tessera
