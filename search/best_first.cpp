#include "search/best_first.hpp"

#include <algorithm>
#include <string>

#include "tessera/error.hpp"

namespace tessera {

BestFirst::BestFirst(const Space& space) : space_(&space), study_(&space.study()) {}

BestRow BestFirst::run(const Digits& at, Counts& counts) {
  at_ = at;
  best_ = BestRow{};
  best_.cluster = at.cluster;
  best_.batch = at.batch;
  best_.architecture = at.architecture;
  counts_ = Counts{};
  blocks_.clear();
  open_.clear();
  heap_.clear();
  heavy_.clear();
  costs_.clear();
  selected_ = kNoMesh;
  use_products();
  const Architecture& a = study_->architectures[at_.architecture];
  const auto& experts = space_->expert_meshes(at_.cluster);
  expert_width_.resize(experts.size());
  for (std::size_t e = 0; e < experts.size(); ++e) expert_width_[e] = expert_width_rule(a, experts[e]);
  at_.precision = at_.mesh = at_.expert = at_.zero = at_.micro_batch = at_.recompute = at_.variant = 0;
  std::uint64_t id = space_->encode(at_);
  const std::uint64_t step = experts.size() * space_->inner().size();
  for (at_.precision = 0; at_.precision < space_->precisions().size(); ++at_.precision) {
    costs_.emplace_back(a, study_->clusters[at_.cluster], space_->inner(), study_->batches[at_.batch], study_->sequence,
                        space_->precisions()[at_.precision], study_->plan.optimizer, &pool_);
    for (at_.mesh = 0; at_.mesh < space_->meshes(at_.cluster).size(); ++at_.mesh, id += step) open_mesh(id);
  }
  search();
  if (best_.feasible == 0) find_closest_miss();
  counts.add(counts_);
  return best_;
}

// Legality looks at an architecture's depth alone, which neighbours in a grid share.
void BestFirst::use_products() {
  const auto key = std::make_tuple(at_.cluster, at_.batch, depth_key(study_->architectures[at_.architecture]));
  if (!products_.empty() && key == product_key_) return;
  products_.clear();
  products_.resize(space_->precisions().size() * space_->meshes(at_.cluster).size());
  product_key_ = key;
}

void BestFirst::open_mesh(std::uint64_t id) {
  const Architecture& a = study_->architectures[at_.architecture];
  const Cluster& cluster = study_->clusters[at_.cluster];
  const Mesh& mesh = space_->meshes(at_.cluster)[at_.mesh];
  const auto& experts = space_->expert_meshes(at_.cluster);
  const InnerAxes& inner = space_->inner();
  if (const Reason r = mesh_rule(a, cluster, mesh, study_->sequence); r != Reason::none)
    return refuse(r, experts.size() * inner.size(), id);
  std::optional<InnerProduct>& made = products_[at_.precision * space_->meshes(at_.cluster).size() + at_.mesh];
  if (!made) made.emplace(inner, a, cluster, study_->batches[at_.batch], space_->precisions()[at_.precision], mesh);
  const InnerProduct& product = *made;
  OpenMesh open{at_.precision, at_.mesh, blocks_.size(), 0, &product};
  select(open.precision, open.mesh);
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
    if (kind.rows * product.all_slices == 0) continue;
    const double floor = cost_->states_floor(experts[e].ep, experts[e].etp, kind.zero.data(), cluster.memory_cap);
    if (floor > cluster.memory_cap) {
      refuse(Reason::memory_bound, kind.rows * product.all_slices, id + product.first(inner, kind, product.first_micro_batch));
      heavy_.push_back({floor, at_.precision, at_.mesh, e, id, &product, &kind});
    } else {
      blocks_.push_back({e, id, &kind, std::nullopt});
    }
  }
  open.last = blocks_.size();
  if (open.first == open.last) return;
  open_.push_back(open);
  for (std::uint32_t b = 0; b < inner.micro_batch.size(); ++b) {
    if (product.slices[b] == 0) continue;
    double floor = std::numeric_limits<double>::infinity();
    for (std::size_t v = 0; v < inner.variant.size(); ++v)
      if (product.slice[b * inner.variant.size() + v]) floor = std::min(floor, cost_->mesh_time_floor(b, v));
    heap_.push_back({floor, blocks_[open.first].id, static_cast<std::uint32_t>(open_.size() - 1), kWholeMesh, b, false});
  }
}

void BestFirst::select(std::uint32_t precision, std::uint32_t mesh) {
  at_.precision = precision;
  at_.mesh = mesh;
  if (selected_ == std::pair(precision, mesh)) return;
  selected_ = {precision, mesh};
  cost_ = &costs_[precision];
  cost_->select_mesh(space_->plan(at_));
}

namespace {
/// Of std::push_heap and pop_heap, whose top is the largest.
constexpr auto later = [](const auto& a, const auto& b) {
  if (a.floor != b.floor) return a.floor > b.floor;
  return std::tie(a.id, a.micro_batch, a.block, a.whole_step) > std::tie(b.id, b.micro_batch, b.block, b.whole_step);
};
}  // namespace

void BestFirst::push(const Item& item) {
  if (item.floor > limit()) return leave(item);
  heap_.push_back(item);
  std::push_heap(heap_.begin(), heap_.end(), later);
}

// Above this a bound proves a plan slower than the best: bound and time may differ in their last digits.
double BestFirst::limit() const {
  constexpr double kRounding = 1e-9;
  return best_.feasible ? best_.step_seconds * (1 + kRounding) : std::numeric_limits<double>::infinity();
}

void BestFirst::search() {
  std::make_heap(heap_.begin(), heap_.end(), later);
  while (!heap_.empty() && heap_.front().floor <= limit()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Item item = heap_.back();
    heap_.pop_back();
    select(open_[item.open].precision, open_[item.open].mesh);
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
    Item next{0, blocks_[i].id, item.open, static_cast<std::uint32_t>(i), item.micro_batch, false};
    next.floor = block_floor(next, {});
    push(next);
  }
}

double BestFirst::block_floor(const Item& item, const StepFloor& step) const {
  const InnerProduct& product = *open_[item.open].product;
  const std::size_t variants = space_->inner().variant.size(), first = item.micro_batch * variants;
  double floor = std::numeric_limits<double>::infinity();
  for (std::size_t v = 0; v < variants; ++v)
    if (product.slice[first + v]) floor = std::min(floor, cost_->time_floor(item.micro_batch, v, step));
  return floor;
}

void BestFirst::close_step(Item item) {
  Block& block = blocks_[item.block];
  if (!block.floor) block.floor = cost_->floor(block.kind->zero.data());
  item.floor = block_floor(item, *block.floor);
  item.whole_step = true;
  push(item);
}

void BestFirst::cost_block(const Item& item) {
  const InnerAxes& inner = space_->inner();
  const InnerProduct& product = *open_[item.open].product;
  const Block& block = blocks_[item.block];
  for (std::size_t v = 0; v < inner.variant.size(); ++v) {
    if (!product.slice[item.micro_batch * inner.variant.size() + v]) continue;
    const SliceCost c = cost_->slice(item.micro_batch, v, *block.floor, block.kind->zero.data(), product.mode.data(), limit());
    if (c.slower > 0) refuse(Reason::time_bound, c.slower, block.id + c.first_slower);
    if (c.misfits > 0) refuse(Reason::memory, c.misfits, block.id + c.first_misfit);
    counts_.evaluations += c.fits + c.misfits;
    counts_.feasible += c.fits;
    if (c.best != SliceCost::kNone) take(block.id + c.best, c.cost);
    if (c.miss != SliceCost::kNone) best_.take_miss(block.id + c.miss, c.miss_cost);
  }
}

// All plans of opened blocks are costed by now: as long as nothing fits no bound leaves one out. Of the other blocks those are,
// whose states alone are not above the least miss; they stay counted as what their bound refused. Memory does not fall with
// the micro-batch (BlockCost::memory_floor), whose indices rise: the least legal one has the least memory and, of equals, id.
void BestFirst::find_closest_miss() {
  constexpr double kRounding = 1e-9;
  const InnerAxes& inner = space_->inner();
  const auto heavier = [](const Heavy& a, const Heavy& b) { return std::tie(a.floor, a.id) > std::tie(b.floor, b.id); };
  std::make_heap(heavy_.begin(), heavy_.end(), heavier);
  for (; !heavy_.empty(); heavy_.pop_back()) {
    std::pop_heap(heavy_.begin(), heavy_.end(), heavier);
    const Heavy& h = heavy_.back();
    if (best_.id != kNoId && h.floor * (1 - kRounding) > best_.memory_with_reserve_bytes) break;
    select(h.precision, h.mesh);
    const ExpertMesh& expert = space_->expert_meshes(at_.cluster)[h.expert];
    cost_->select_experts(expert.ep, expert.etp);
    for (std::size_t v = 0; v < inner.variant.size(); ++v) {
      std::size_t b = 0;
      while (b < inner.micro_batch.size() && !h.product->slice[b * inner.variant.size() + v]) ++b;
      if (b == inner.micro_batch.size()) continue;
      const SliceCost c = cost_->slice(b, v, {}, h.kind->zero.data(), h.product->mode.data(), limit());
      if (c.miss != SliceCost::kNone) best_.take_miss(h.id + c.miss, c.miss_cost);
    }
  }
  if (best_.id != kNoId) counts_.miss.take(best_.id, best_.memory_with_reserve_bytes, study_->clusters[at_.cluster].memory_cap);
}

void BestFirst::take(std::uint64_t id, const PlanCost& cost) {
  if (!(cost.step_seconds > 0))
    throw RunError("the step time of plan " + std::to_string(id) + " is not a positive number of seconds");
  if (best_.feasible && (cost.step_seconds > best_.step_seconds || (cost.step_seconds == best_.step_seconds && id > best_.id))) return;
  best_.take(id, cost);
}

void BestFirst::leave(const Item& item) {
  const OpenMesh& open = open_[item.open];
  const bool whole = item.block == kWholeMesh;
  const std::size_t first = whole ? open.first : item.block, last = whole ? open.last : item.block + 1;
  for (std::size_t i = first; i < last; ++i)
    refuse(Reason::time_bound, blocks_[i].kind->rows * open.product->slices[item.micro_batch],
           blocks_[i].id + open.product->first(space_->inner(), *blocks_[i].kind, item.micro_batch));
}

void BestFirst::refuse(Reason reason, std::uint64_t points, std::uint64_t sample) {
  const auto r = static_cast<std::size_t>(reason);
  counts_.refused[r] += points;
  counts_.sample[r] = std::min(counts_.sample[r], sample);
}

}  // namespace tessera
