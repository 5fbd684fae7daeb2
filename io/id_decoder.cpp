#include "io/id_decoder.hpp"

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera {
namespace {

[[noreturn]] void damaged(const Hdf5Reader& file, const std::string& what) {
  throw InputError(file.path() + " is damaged", what, "run the sweep again.");
}

std::vector<int> small_numbers(const Hdf5Reader& file, const std::string& dataset, std::int64_t low) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  std::vector<int> out;
  for (const std::int64_t value : file.integers(dataset)) {
    if (value < low || value > kMost) damaged(file, dataset + " holds a value out of range");
    out.push_back(static_cast<int>(value));
  }
  return out;
}

template <class T>
std::vector<T> words(const Hdf5Reader& file, const std::string& dataset, std::optional<T> (*from)(std::string_view)) {
  std::vector<T> out;
  for (const auto& text : file.texts(dataset)) {
    const auto value = from(text);
    if (!value) damaged(file, dataset + " holds the unknown word '" + text + "'");
    out.push_back(*value);
  }
  return out;
}

}  // namespace

IdDecoder::IdDecoder(const ResultsReader& reader) : batches_(reader.results().batches), architectures_(reader.results().architectures.size()) {
  const Hdf5Reader& file = reader.file();
  const std::size_t clusters = reader.results().clusters.size();
  optimizer_ = *optimizer_from(reader.results().optimizer);
  precisions_ = words(file, "/space/precision", precision_from);
  inner_.zero = small_numbers(file, "/space/zero", 0);
  inner_.micro_batch = small_numbers(file, "/space/micro_batch", 1);
  inner_.recompute = words(file, "/space/recompute", recompute_from);
  const auto schedules = words(file, "/space/schedule", schedule_from);
  const auto stages = small_numbers(file, "/space/virtual_stages", 1);
  if (stages.size() != schedules.size()) damaged(file, "/space/virtual_stages has another length than /space/schedule");
  inner_.variant.clear();
  for (std::size_t i = 0; i < schedules.size(); ++i) inner_.variant.push_back({schedules[i], stages[i]});
  meshes_.resize(clusters);
  expert_meshes_.resize(clusters);
  const auto owner = small_numbers(file, "/space/meshes/cluster", 0);
  const auto pp = small_numbers(file, "/space/meshes/pp", 1), cp = small_numbers(file, "/space/meshes/cp", 1);
  const auto tp = small_numbers(file, "/space/meshes/tp", 1), dp = small_numbers(file, "/space/meshes/dp", 1);
  const auto expert_owner = small_numbers(file, "/space/expert_meshes/cluster", 0);
  const auto ep = small_numbers(file, "/space/expert_meshes/ep", 1), etp = small_numbers(file, "/space/expert_meshes/etp", 1);
  if (pp.size() != owner.size() || cp.size() != owner.size() || tp.size() != owner.size() || dp.size() != owner.size() ||
      ep.size() != expert_owner.size() || etp.size() != expert_owner.size())
    damaged(file, "the columns of /space have different lengths");
  for (std::size_t i = 0; i < owner.size(); ++i) {
    if (static_cast<std::size_t>(owner[i]) >= clusters) damaged(file, "/space/meshes/cluster is out of range");
    meshes_[static_cast<std::size_t>(owner[i])].push_back({pp[i], cp[i], tp[i], dp[i]});
  }
  for (std::size_t i = 0; i < expert_owner.size(); ++i) {
    if (static_cast<std::size_t>(expert_owner[i]) >= clusters) damaged(file, "/space/expert_meshes/cluster is out of range");
    expert_meshes_[static_cast<std::size_t>(expert_owner[i])].push_back({ep[i], etp[i]});
  }
  first_id_.push_back(0);
  for (std::size_t c = 0; c < clusters; ++c)
    first_id_.push_back(first_id_.back() + batches_.size() * architectures_ * precisions_.size() * meshes_[c].size() * expert_meshes_[c].size() * inner_.size());
  if (points() != reader.results().points) damaged(file, "the tables of /space do not give the number of points of /study");
}

Digits IdDecoder::decode(std::uint64_t id) const {
  Digits d;
  d.cluster = static_cast<std::uint32_t>(std::upper_bound(first_id_.begin(), first_id_.end(), id) - first_id_.begin() - 1);
  std::uint64_t rest = id - first_id_[d.cluster];
  const auto take = [&rest](std::size_t radix) {
    const auto digit = static_cast<std::uint32_t>(rest % radix);
    rest /= radix;
    return digit;
  };
  d.variant = take(inner_.variant.size());
  d.recompute = take(inner_.recompute.size());
  d.micro_batch = take(inner_.micro_batch.size());
  d.zero = take(inner_.zero.size());
  d.expert = take(expert_meshes_[d.cluster].size());
  d.mesh = take(meshes_[d.cluster].size());
  d.precision = take(precisions_.size());
  d.architecture = take(architectures_);
  d.batch = static_cast<std::uint32_t>(rest);
  return d;
}

Plan IdDecoder::plan(const Digits& d) const {
  Plan p;
  const Mesh& mesh = meshes_[d.cluster][d.mesh];
  const ExpertMesh& expert = expert_meshes_[d.cluster][d.expert];
  p.pp = mesh.pp;
  p.cp = mesh.cp;
  p.tp = mesh.tp;
  p.dp = mesh.dp;
  p.ep = expert.ep;
  p.etp = expert.etp;
  p.batch = batches_[d.batch];
  p.zero = inner_.zero[d.zero];
  p.micro_batch = inner_.micro_batch[d.micro_batch];
  p.recompute = inner_.recompute[d.recompute];
  p.schedule = inner_.variant[d.variant].schedule;
  p.virtual_stages = inner_.variant[d.variant].virtual_stages;
  p.precision = precisions_[d.precision];
  p.optimizer = optimizer_;
  return p;
}

}  // namespace tessera
