#include "search/best_first.hpp"

#include <algorithm>
#include <string>

#include "tessera/error.hpp"

namespace tessera {

BestFirst::BestFirst(const Space& space) : space_(&space), study_(&space.study()) {}

bool BestFirst::run(const Digits& at, BestRow& best, Counts& counts) {
  at_ = at;
  best_ = BestRow{};
  best_.cluster = at.cluster;
  best_.batch = at.batch;
  best_.architecture = at.architecture;
  counts_ = Counts{};
  const Architecture& a = study_->architectures[at_.architecture];
  const auto& experts = space_->expert_meshes(at_.cluster);
  expert_width_.resize(experts.size());
  for (std::size_t e = 0; e < experts.size(); ++e) expert_width_[e] = expert_width_rule(a, experts[e]);
  for (at_.precision = 0; at_.precision < space_->precisions().size(); ++at_.precision) {
    open_precision();
    search();
  }
  if (best_.feasible == 0) return false;
  best = best_;
  counts.add(counts_);
  return true;
}

// Legality looks at an architecture's depth alone, which neighbours in a grid share.
void BestFirst::use_products() {
  const auto key = std::make_tuple(at_.cluster, at_.batch, at_.precision, depth_key(study_->architectures[at_.architecture]));
  if (!products_.empty() && key == product_key_) return;
  products_.assign(space_->meshes(at_.cluster).size(), std::nullopt);
  product_key_ = key;
}

void BestFirst::open_precision() {
  const Architecture& a = study_->architectures[at_.architecture];
  use_products();
  blocks_.clear();
  open_.clear();
  heap_.clear();
  cost_.emplace(a, study_->clusters[at_.cluster], space_->inner(), study_->batches[at_.batch], study_->sequence,
                space_->precisions()[at_.precision], study_->plan.optimizer);
  at_.mesh = at_.expert = at_.zero = at_.micro_batch = at_.recompute = at_.variant = 0;
  std::uint64_t id = space_->encode(at_);
  const std::uint64_t step = space_->expert_meshes(at_.cluster).size() * space_->inner().size();
  for (std::uint32_t m = 0; m < space_->meshes(at_.cluster).size(); ++m, id += step) open_mesh(m, id);
}

void BestFirst::open_mesh(std::uint32_t m, std::uint64_t id) {
  const Architecture& a = study_->architectures[at_.architecture];
  const Cluster& cluster = study_->clusters[at_.cluster];
  const Mesh& mesh = space_->meshes(at_.cluster)[m];
  const auto& experts = space_->expert_meshes(at_.cluster);
  const InnerAxes& inner = space_->inner();
  if (const Reason r = mesh_rule(a, cluster, mesh, study_->sequence); r != Reason::none)
    return refuse(r, experts.size() * inner.size(), id);
  if (!products_[m]) products_[m].emplace(inner, a, cluster, study_->batches[at_.batch], space_->precisions()[at_.precision], mesh);
  const InnerProduct& product = *products_[m];
  OpenMesh open{m, blocks_.size(), 0};
  for (std::uint32_t e = 0; e < experts.size(); ++e, id += inner.size()) {
    Reason r = expert_width_[e];
    if (r == Reason::none) r = expert_rule(a, cluster.stack, mesh, experts[e]);
    if (r != Reason::none) {
      refuse(r, inner.size(), id);
      continue;
    }
    const InnerProduct::Kind& kind = product.kind(mesh, experts[e]);
    for (std::size_t reason = 1; reason < kReasonCount; ++reason)
      if (kind.refused[reason] > 0) refuse(static_cast<Reason>(reason), kind.refused[reason], id + kind.sample[reason]);
    if (kind.rows > 0) blocks_.push_back({e, id, &kind == &product.kinds[1], std::nullopt});
  }
  open.last = blocks_.size();
  if (open.first == open.last) return;
  open_.push_back(open);
  select(open);
  for (std::uint32_t b = 0; b < inner.micro_batch.size(); ++b) {
    if (product.slices[b] == 0) continue;
    double floor = std::numeric_limits<double>::infinity();
    for (std::size_t v = 0; v < inner.variant.size(); ++v)
      if (product.slice[b * inner.variant.size() + v]) floor = std::min(floor, cost_->mesh_time_floor(b, v));
    push({floor, blocks_[open.first].id, static_cast<std::uint32_t>(open_.size() - 1), b, kWholeMesh, false});
  }
}

void BestFirst::select(const OpenMesh& open) {
  at_.mesh = open.mesh;
  at_.expert = 0;
  cost_->select_mesh(space_->plan(at_));
}

namespace {
/// Of std::push_heap and pop_heap, whose top is the largest.
constexpr auto later = [](const auto& a, const auto& b) {
  return std::tie(a.floor, a.id, a.micro_batch, a.block, a.whole_step) > std::tie(b.floor, b.id, b.micro_batch, b.block, b.whole_step);
};
}  // namespace

void BestFirst::push(const Item& item) {
  heap_.push_back(item);
  std::push_heap(heap_.begin(), heap_.end(), later);
}

// Above this a bound proves a plan slower than the best: bound and time may differ in their last digits.
double BestFirst::limit() const {
  constexpr double kRounding = 1e-9;
  return best_.feasible ? best_.step_seconds * (1 + kRounding) : std::numeric_limits<double>::infinity();
}

void BestFirst::search() {
  while (!heap_.empty() && heap_.front().floor <= limit()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Item item = heap_.back();
    heap_.pop_back();
    select(open_[item.open]);
    if (item.block == kWholeMesh) {
      open_blocks(item);
      continue;
    }
    const ExpertMesh& expert = space_->expert_meshes(at_.cluster)[blocks_[item.block].expert];
    cost_->select_experts(expert.ep, expert.etp);
    if (item.whole_step) cost_block(item);
    else close_step(item);
  }
  for (const Item& item : heap_) leave(item);
}

void BestFirst::open_blocks(const Item& item) {
  const OpenMesh& open = open_[item.open];
  for (std::size_t i = open.first; i < open.last; ++i) {
    const ExpertMesh& expert = space_->expert_meshes(at_.cluster)[blocks_[i].expert];
    cost_->select_experts(expert.ep, expert.etp);
    Item next{0, blocks_[i].id, item.open, item.micro_batch, i, false};
    next.floor = block_floor(next, {});
    push(next);
  }
}

double BestFirst::block_floor(const Item& item, const StepFloor& step) const {
  const InnerProduct& product = *products_[open_[item.open].mesh];
  const std::size_t variants = space_->inner().variant.size(), first = item.micro_batch * variants;
  double floor = std::numeric_limits<double>::infinity();
  for (std::size_t v = 0; v < variants; ++v)
    if (product.slice[first + v]) floor = std::min(floor, cost_->time_floor(item.micro_batch, v, step));
  return floor;
}

void BestFirst::close_step(Item item) {
  const InnerProduct& product = *products_[open_[item.open].mesh];
  Block& block = blocks_[item.block];
  if (!block.floor) block.floor = cost_->floor(product.kinds[block.bare].zero.data());
  if (block.floor->memory > study_->clusters[at_.cluster].memory_cap) return leave_block(block, product, item.micro_batch, Reason::memory_bound);
  item.floor = block_floor(item, *block.floor);
  item.whole_step = true;
  push(item);
}

void BestFirst::cost_block(const Item& item) {
  const InnerAxes& inner = space_->inner();
  const InnerProduct& product = *products_[open_[item.open].mesh];
  const Block& block = blocks_[item.block];
  for (std::size_t v = 0; v < inner.variant.size(); ++v) {
    if (!product.slice[item.micro_batch * inner.variant.size() + v]) continue;
    const SliceCost c = cost_->slice(item.micro_batch, v, *block.floor, product.kinds[block.bare].zero.data(), product.mode.data(), limit());
    if (c.slower > 0) refuse(Reason::time_bound, c.slower, block.id + c.first_slower);
    if (c.misfits > 0) refuse(Reason::memory, c.misfits, block.id + c.first_misfit);
    counts_.evaluations += c.fits + c.misfits;
    counts_.feasible += c.fits;
    if (c.best != SliceCost::kNone) take(block.id + c.best, c.cost);
  }
}

void BestFirst::take(std::uint64_t id, const PlanCost& cost) {
  if (!(cost.step_seconds > 0))
    throw RunError("the step time of plan " + std::to_string(id) + " is not a positive number of seconds");
  if (best_.feasible && (cost.step_seconds > best_.step_seconds || (cost.step_seconds == best_.step_seconds && id > best_.id))) return;
  best_.take(id, cost);
}

void BestFirst::leave(const Item& item) {
  const OpenMesh& open = open_[item.open];
  const InnerProduct& product = *products_[open.mesh];
  if (item.block != kWholeMesh) return leave_block(blocks_[item.block], product, item.micro_batch, Reason::time_bound);
  for (std::size_t i = open.first; i < open.last; ++i) leave_block(blocks_[i], product, item.micro_batch, Reason::time_bound);
}

void BestFirst::leave_block(const Block& block, const InnerProduct& product, std::size_t micro_batch, Reason reason) {
  const InnerAxes& inner = space_->inner();
  const InnerProduct::Kind& kind = product.kinds[block.bare];
  const std::size_t first = inner.index(kind.first_zero, micro_batch, product.first_mode, product.first_variant[micro_batch]);
  refuse(reason, kind.rows * product.slices[micro_batch], block.id + first);
}

void BestFirst::refuse(Reason reason, std::uint64_t points, std::uint64_t sample) {
  const auto r = static_cast<std::size_t>(reason);
  counts_.refused[r] += points;
  counts_.sample[r] = std::min(counts_.sample[r], sample);
}

}  // namespace tessera
