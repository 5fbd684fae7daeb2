// The space of a study: every point (architecture x cluster x batch x plan) has one 64-bit id in mixed radix.
//
// Digits, most significant first:
//     cluster . batch . architecture . precision . mesh . expert . zero . micro_batch . recompute . variant
// mesh indexes the cluster's table of ordered factorisations of its devices into (pp, cp, tp, dp), pp first;
// expert its table of (ep, etp); variant is a schedule with its virtual stages. The tables depend on the study
// only, never on the architecture, so decode() is pure and total and encode(decode(id)) == id for every id.
// The tables of two clusters may differ in length; a cluster's ids then start where those of the one before end.
// Legal ids are never the same plan twice (search/legality.hpp, not_canonical).
#pragma once
#include <cstdint>
#include <vector>

#include "tessera/step_cost.hpp"
#include "tessera/study.hpp"

namespace tessera {

struct Mesh {
  int pp = 1, cp = 1, tp = 1, dp = 1;
  bool operator==(const Mesh&) const = default;
};

struct ExpertMesh {
  int ep = 1, etp = 1;
  bool operator==(const ExpertMesh&) const = default;
};

/// Indices into the study's lists and the space's tables.
struct Digits {
  std::uint32_t cluster = 0, batch = 0, architecture = 0, precision = 0, mesh = 0, expert = 0;
  std::uint32_t zero = 0, micro_batch = 0, recompute = 0, variant = 0;
  bool operator==(const Digits&) const = default;
};

/// A contiguous range of ids [first, last): whole (architecture, precision, mesh) rows of one cluster and batch.
struct Unit {
  std::uint64_t first = 0, last = 0;
  std::uint64_t legal = 0;  ///< legal ids in it: its expected work
};

class Space {
 public:
  /// Builds the tables and cuts the units. The study must outlive the space. Throws InputError where the study
  /// does not pass check(), an axis has no value left, or ids would not fit into 63 bits.
  explicit Space(const Study&);

  const Study& study() const { return *study_; }
  std::uint64_t points() const { return offset_.back(); }
  std::uint64_t legal() const { return legal_; }  ///< exact number of legal ids

  Digits decode(std::uint64_t id) const;  ///< precondition: id < points()
  std::uint64_t encode(const Digits&) const;
  Plan plan(const Digits&) const;
  const Architecture& architecture(const Digits& d) const { return study_->architectures[d.architecture]; }
  const Cluster& cluster(const Digits& d) const { return study_->clusters[d.cluster]; }
  /// Why the id is refused by a rule; Reason::none: it is legal.
  Reason legality(const Digits&) const;

  const InnerAxes& inner() const { return inner_; }
  const std::vector<Precision>& precisions() const { return precisions_; }
  const std::vector<Mesh>& meshes(std::uint32_t cluster) const { return meshes_[cluster]; }
  const std::vector<ExpertMesh>& expert_meshes(std::uint32_t cluster) const { return experts_[cluster]; }

  /// Units in id order; they cover the space without gap. Their bounds depend on the study only.
  std::uint64_t units() const { return units_.size(); }
  const Unit& unit(std::uint64_t index) const { return units_[index]; }

  /// Bytes of the results for a record mode, before compression: upper bound from the number of legal plans.
  double record_bytes(Record) const;

 private:
  void make_tables();
  void cut_units();

  const Study* study_;
  InnerAxes inner_;
  std::vector<Precision> precisions_;
  std::vector<std::vector<Mesh>> meshes_;          ///< by cluster
  std::vector<std::vector<ExpertMesh>> experts_;   ///< by cluster
  std::vector<std::uint64_t> offset_;              ///< first id of each cluster, and the end
  std::vector<Unit> units_;
  std::uint64_t legal_ = 0;
};

}  // namespace tessera
