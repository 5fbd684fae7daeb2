// From an id to its plan with nothing but a results file: the tables of /space. The same digits as Space::decode(),
// for readers that do not make the study again (its presets may have changed since).
#pragma once
#include <cstdint>
#include <vector>

#include "io/results_reader.hpp"
#include "tessera/space.hpp"

namespace tessera {

class IdDecoder {
 public:
  /// Throws InputError where /space is damaged.
  explicit IdDecoder(const ResultsReader&);
  std::uint64_t points() const { return first_id_.back(); }
  Digits decode(std::uint64_t id) const;  ///< precondition: id < points()
  Plan plan(const Digits&) const;

 private:
  std::vector<std::uint64_t> first_id_;               ///< by cluster, and the end
  std::vector<std::vector<Mesh>> meshes_;             ///< by cluster
  std::vector<std::vector<ExpertMesh>> expert_meshes_;
  std::vector<std::int64_t> batches_;
  std::size_t architectures_ = 0;
  std::vector<Precision> precisions_;
  InnerAxes inner_;
  Optimizer optimizer_ = Optimizer::adam;
};

}  // namespace tessera
