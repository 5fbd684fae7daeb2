// The batched path's state: tables of an architecture on a cluster, and what is selected of them. Of block_*.cpp only.
#pragma once
#include <deque>
#include <memory_resource>
#include <unordered_map>
#include <vector>

#include "model/block_tables.hpp"
#include "model/composition.hpp"
#include "model/recompute.hpp"

namespace tessera {

struct BlockCost::Impl {
  Architecture architecture;
  Cluster cluster;
  InnerAxes axes;
  std::int64_t batch, sequence;
  Precision precision;
  Optimizer optimizer;
  Setting setting;
  bool has_dense, any_dualpipe;
  double capacity;
  std::vector<std::size_t> rising_batches, falling_memory;  // indices: micro-batches upwards, recomputation from full down
  const LaneKernel* kernel = &lane_kernel();

  std::pmr::memory_resource* memory;
  std::pmr::unordered_map<std::uint64_t, TokenPieces> token_pieces{memory};
  std::pmr::unordered_map<std::uint64_t, DensePieces> dense_pieces{memory};
  std::pmr::unordered_map<std::uint64_t, ShardRow> shards{memory};  // by tp and cp
  std::pmr::deque<ShardCost> shard_costs{memory};
  std::pmr::deque<Piece> expert_pieces{memory};
  std::unordered_map<std::uint64_t, Placed> layouts;

  // The selected block.
  Plan mesh;
  ShardRow* shard_row = nullptr;             // of its tp and cp
  ShardTable* table = nullptr;
  std::vector<DensePieces*> mesh_pieces;     // per micro-batch, once asked for
  std::vector<MeshCost> mesh_costs;          // per micro-batch, once mesh_priced
  bool mesh_priced = false;
  std::vector<std::int64_t> micro_batches;   // n_mb per micro-batch, 0: does not divide
  std::vector<VariantState> variants;
  std::uint64_t block = 0;                   // serial number of the selected block
  double stage_jitter = 0, coupling_growth = 0;
  double device_jitter;                      // relative, of all plans on the cluster
  std::vector<MeshCost> hops;                // per micro-batch; of them the hops alone are set
  MeshCost parameters;                       // of parameters_tp and the last experts asked for: parameters alone
  int parameters_tp = 0;
  std::vector<const Placed*> placed;         // by variant, once asked for
  std::vector<PlaceTask> places;             // scratch of cost_of()
  std::vector<LaneResult> results;
  std::vector<std::uint8_t> wanted;          // scratch of cost(): [variant][ZeRO index], some mode is legal
  std::vector<std::uint8_t> joined;          // scratch of want(): by variant

  Impl(const Architecture&, const Cluster&, const InnerAxes&, std::int64_t batch, std::int64_t sequence, Precision, Optimizer,
       std::pmr::memory_resource*);

  void select_mesh(const Plan& mesh);
  void select_experts(int ep, int etp);
  Shard shard(std::size_t b) const { return {mesh.tp, mesh.cp, mesh.ep, mesh.etp, axes.micro_batch[b]}; }

  // Tables, made when they are first asked for (block_tables.cpp).
  const TokenPieces& tokens(std::size_t b);
  DensePieces& pieces(std::size_t b);
  void add_modes(std::size_t b, DensePieces&);
  const Piece& experts(std::size_t b);
  const ShardFloor& shard_floor(std::size_t b);
  const ShardCost& entry(std::size_t b);
  const Placed& layout(std::size_t v);
  VariantState& variant(std::size_t v);
  void know(VariantState&, std::size_t z, std::size_t v, const PartMemory& any);
  void price_mesh();

  // Modules of a mode of the axis; lanes beyond it repeat the first.
  unsigned modules(int lane) const {
    return recompute_modules(axes.recompute[std::size_t(lane) < axes.recompute.size() ? std::size_t(lane) : 0]);
  }

  double local_tokens(std::size_t b) const { return double(axes.micro_batch[b]) * double(sequence) / mesh.cp; }

  Plan plan(std::size_t z, std::size_t v) const {
    Plan p = mesh;
    p.zero = axes.zero[z];
    p.schedule = axes.variant[v].schedule;
    p.virtual_stages = axes.variant[v].virtual_stages;
    return p;
  }

  bool wanted_any(std::size_t v) const {
    const auto first = wanted.begin() + static_cast<std::ptrdiff_t>(v * axes.zero.size());
    return std::any_of(first, first + static_cast<std::ptrdiff_t>(axes.zero.size()), [](std::uint8_t w) { return w != 0; });
  }

  double reserved(const VariantState&, std::size_t z, std::size_t b, std::size_t v, const PartMemory&) const;
  void want(std::size_t b, const std::uint8_t* legal);
  // All ZeRO stages and recomputation modes of one (micro-batch, variant) into `results`; times only where a mode of
  // `modes` fits. `zeros` and `modes` by index.
  void run_kernel(std::size_t b, std::size_t v, const std::uint8_t* zeros, const std::uint8_t* modes);
  void cost_of(std::size_t b, std::size_t v, const std::uint8_t* wanted, const std::uint8_t* legal, PlanCost* out);
  PlanCost result(std::size_t z, std::size_t lane) const;
  FloorShape floor_shape(std::size_t b, std::size_t v);
  void mode_floors(std::size_t b, std::size_t v, const StepFloor&, Row& out);
};

}  // namespace tessera
