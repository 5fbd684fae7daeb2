#include "tessera/space.hpp"

#include <algorithm>
#include <set>

#include "search/legal_count.hpp"
#include "search/legality.hpp"
#include "model/lane_kernel.hpp"
#include "tessera/error.hpp"
#include "tessera/sweep.hpp"

namespace tessera {
namespace {

// Size of a unit, in legal ids: about a thousand units where the space is large enough, so that work spreads over
// ranks; never so few plans that tables of an architecture's profiles cost more than its plans, never so many that
// the columns of a unit (33 bytes a row) weigh on a rank's memory.
constexpr std::uint64_t kUnitsWanted = 1024;
constexpr std::uint64_t kLeastUnit = std::uint64_t{1} << 14;
constexpr std::uint64_t kMostUnit = std::uint64_t{1} << 18;

std::vector<int> divisors(std::int64_t n) {
  std::vector<int> out;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    out.push_back(static_cast<int>(d));
    if (d != n / d) out.push_back(static_cast<int>(n / d));
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// The axis' values, sorted, without repeats and without the forbidden ones. `every`: what "all" means.
template <class T>
std::vector<T> resolve(const Axis<T>& axis, const std::vector<T>& every, const char* name) {
  std::vector<T> out = axis.values ? *axis.values : every;
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  std::erase_if(out, [&](const T& v) {
    return std::find(axis.forbidden.begin(), axis.forbidden.end(), v) != axis.forbidden.end();
  });
  if (out.empty())
    throw InputError(std::string("study: axis ") + name + " has no value left", "nothing would be searched",
                     "widen the axis or forbid less");
  return out;
}

std::vector<Mesh> make_meshes(const PlanAxes& axes, std::int64_t devices) {
  const auto every = divisors(devices);
  const auto tp = resolve(axes.tp, every, "tp"), cp = resolve(axes.cp, every, "cp"), pp = resolve(axes.pp, every, "pp");
  std::vector<Mesh> out;
  for (const std::int64_t p : pp)
    for (const std::int64_t c : cp)
      for (const std::int64_t t : tp) {
        // Products stay below 2^62: each factor is checked before the next is multiplied in.
        if (devices % p != 0 || (devices / p) % c != 0 || (devices / p / c) % t != 0) continue;
        out.push_back({static_cast<int>(p), static_cast<int>(c), static_cast<int>(t),
                       static_cast<int>(devices / p / c / t)});
      }
  return out;
}

/// "all" schedules: those of the stacks; "all" virtual stages: as many as the deepest architecture can have.
std::vector<Variant> make_variants(const Study& s) {
  std::set<Schedule> has;
  for (const Cluster& c : s.clusters) has.insert(c.stack.schedules.begin(), c.stack.schedules.end());
  const auto schedules = resolve(s.plan.schedule, {has.begin(), has.end()}, "schedule");
  std::int64_t deepest = 1;
  for (const Architecture& a : s.architectures) deepest = std::max(deepest, (a.layers + 2 + 2 * a.mtp_layers) / 2);
  std::vector<int> every;
  for (int v = 1; v <= deepest; ++v) every.push_back(v);
  const auto virtual_stages = resolve(s.plan.virtual_stages, every, "virtual_stages");
  std::vector<Variant> out;
  for (const Schedule schedule : schedules)
    for (const int v : virtual_stages)
      if ((schedule == Schedule::interleaved) == (v > 1)) out.push_back({schedule, v});
  if (out.empty())
    throw InputError("study: no schedule goes with the virtual stages",
                     "the interleaved schedule has more than one virtual stage, the others have one",
                     "give virtual_stages = [1] or add \"interleaved\" to schedule");
  return out;
}

InnerAxes make_inner(const Study& s) {
  InnerAxes inner;
  inner.zero = resolve(s.plan.zero, {0, 1, 2, 3}, "zero");
  std::set<int> micro;
  for (const std::int64_t batch : s.batches)
    if (!s.plan.micro_batch.values)
      for (const int d : divisors(batch)) micro.insert(d);
  inner.micro_batch = resolve(s.plan.micro_batch, {micro.begin(), micro.end()}, "micro_batch");
  inner.recompute = resolve(
      s.plan.recompute, {Recompute::none, Recompute::selective, Recompute::super_selective, Recompute::full}, "recompute");
  inner.variant = make_variants(s);
  return inner;
}

std::vector<Precision> make_precisions(const Study& s) {
  std::vector<Precision> every;
  for (const Precision p : {Precision::bf16, Precision::fp8, Precision::mxfp8, Precision::nvfp4})
    if (std::any_of(s.clusters.begin(), s.clusters.end(), [&](const Cluster& c) { return c.peak(p) > 0; }))
      every.push_back(p);
  return resolve(s.plan.precision, every, "precision");
}

std::uint64_t checked_product(std::initializer_list<std::uint64_t> factors) {
  std::uint64_t product = 1;
  for (const std::uint64_t f : factors)
    if (__builtin_mul_overflow(product, f, &product) || product >> 62 != 0)
      throw InputError("study: the space has more than 2^62 points", "ids have 63 bits", "split the study");
  return product;
}

}  // namespace

Space::Space(const Study& study) : study_(&study) {
  check(study);
  lane_kernel();  // a kernel that the processor does not have is refused before anything is written
  make_tables();
  cut_units();
}

void Space::make_tables() {
  const Study& s = *study_;
  inner_ = make_inner(s);
  precisions_ = make_precisions(s);
  offset_.push_back(0);
  for (const Cluster& c : s.clusters) {
    if (c.devices > (std::int64_t{1} << 30))
      throw InputError("study: cluster " + c.name + " has more than 2^30 devices", "degrees are 32-bit numbers",
                       "check nodes or devices");
    meshes_.push_back(make_meshes(s.plan, c.devices));
    const auto every = divisors(c.devices);
    auto& experts = experts_.emplace_back();
    for (const int ep : resolve(s.plan.ep, every, "ep"))
      for (const int etp : resolve(s.plan.etp, every, "etp")) experts.push_back({ep, etp});
    const std::uint64_t points = checked_product({s.batches.size(), s.architectures.size(), precisions_.size(),
                                                  meshes_.back().size(), experts.size(), inner_.size()});
    offset_.push_back(offset_.back() + points);
    checked_product({offset_.back()});
  }
  if (points() == 0)
    throw InputError("study: no mesh of the cluster has the given tp, cp and pp",
                     "tp * cp * pp must divide the number of devices", "mend the axes or the number of nodes");
}

void Space::cut_units() {
  const Study& s = *study_;
  std::vector<LegalCount> counts;
  for (std::uint32_t c = 0; c < s.clusters.size(); ++c) counts.emplace_back(*this, c);
  for (LegalCount& count : counts)
    for (std::uint32_t b = 0; b < s.batches.size(); ++b) {
      count.set_batch(b);
      for (std::uint32_t a = 0; a < s.architectures.size(); ++a) legal_ += count.architecture(a);
    }
  const std::uint64_t target = std::clamp(legal_ / kUnitsWanted, kLeastUnit, kMostUnit);
  for (std::uint32_t c = 0; c < s.clusters.size(); ++c) {
    if (meshes_[c].empty()) continue;
    const std::uint64_t row = experts_[c].size() * inner_.size();
    std::uint64_t id = offset_[c];
    for (std::uint32_t b = 0; b < s.batches.size(); ++b) {
      counts[c].set_batch(b);
      Unit unit{id, id, 0};
      const auto flush = [&] {
        if (unit.last > unit.first) units_.push_back(unit);
        unit = {id, id, 0};
      };
      for (std::uint32_t a = 0; a < s.architectures.size(); ++a) {
        // Architectures larger than a unit are split between meshes and share a unit with no other; not where the best
        // plan so far saves the evaluation of others.
        const bool split = counts[c].architecture(a) > target && s.search != Search::pruned;
        if (split) flush();
        for (std::uint32_t p = 0; p < precisions_.size(); ++p)
          for (std::uint32_t m = 0; m < meshes_[c].size(); ++m) {
            unit.legal += counts[c].row(a, p, m);
            unit.last = id += row;
            if (split && unit.legal >= target) flush();
          }
        if (split || unit.legal >= target) flush();
      }
      flush();
    }
  }
}

Digits Space::decode(std::uint64_t id) const {
  const auto end = std::upper_bound(offset_.begin(), offset_.end(), id);
  Digits d;
  d.cluster = static_cast<std::uint32_t>(end - offset_.begin() - 1);
  std::uint64_t rest = id - offset_[d.cluster];
  const auto take = [&rest](std::size_t radix) {
    const auto digit = static_cast<std::uint32_t>(rest % radix);
    rest /= radix;
    return digit;
  };
  d.variant = take(inner_.variant.size());
  d.recompute = take(inner_.recompute.size());
  d.micro_batch = take(inner_.micro_batch.size());
  d.zero = take(inner_.zero.size());
  d.expert = take(experts_[d.cluster].size());
  d.mesh = take(meshes_[d.cluster].size());
  d.precision = take(precisions_.size());
  d.architecture = take(study_->architectures.size());
  d.batch = static_cast<std::uint32_t>(rest);
  return d;
}

std::uint64_t Space::encode(const Digits& d) const {
  std::uint64_t id = d.batch;
  id = id * study_->architectures.size() + d.architecture;
  id = id * precisions_.size() + d.precision;
  id = id * meshes_[d.cluster].size() + d.mesh;
  id = id * experts_[d.cluster].size() + d.expert;
  id = id * inner_.size() + inner_.index(d.zero, d.micro_batch, d.recompute, d.variant);
  return offset_[d.cluster] + id;
}

Plan Space::plan(const Digits& d) const {
  const Mesh& mesh = meshes_[d.cluster][d.mesh];
  const ExpertMesh& expert = experts_[d.cluster][d.expert];
  Plan p;
  p.tp = mesh.tp;
  p.cp = mesh.cp;
  p.pp = mesh.pp;
  p.dp = mesh.dp;
  p.ep = expert.ep;
  p.etp = expert.etp;
  p.virtual_stages = inner_.variant[d.variant].virtual_stages;
  p.micro_batch = inner_.micro_batch[d.micro_batch];
  p.batch = study_->batches[d.batch];
  p.zero = inner_.zero[d.zero];
  p.recompute = inner_.recompute[d.recompute];
  p.schedule = inner_.variant[d.variant].schedule;
  p.precision = precisions_[d.precision];
  p.optimizer = study_->plan.optimizer;
  return p;
}

Reason Space::legality(const Digits& d) const {
  return tessera::legality(architecture(d), cluster(d), plan(d), study_->sequence, &inner_);
}

double Space::record_bytes(Record record) const {
  // id, status and six 32-bit columns.
  constexpr double kRow = sizeof(std::uint64_t) + sizeof(std::uint8_t) + 6 * sizeof(float);
  const double triples = static_cast<double>(study_->clusters.size()) * static_cast<double>(study_->batches.size()) *
                         static_cast<double>(study_->architectures.size());
  const double rows = record == Record::best ? 0.0 : static_cast<double>(legal_);
  return rows * kRow + triples * sizeof(BestRow);
}

}  // namespace tessera
