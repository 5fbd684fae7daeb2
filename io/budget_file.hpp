// The file of a budget table, HDF5 or JSON, as tessera table writes it and tessera lookup opens it. Both hold
// the table with every candidate. The HDF5 file also holds each row's certainty, so that a row's own budget
// is answered without drawing again.
//
//   write_budget_hdf5("budgets.h5", table, answers, {});
//   const BudgetFile file("budgets.h5");  // or budgets.json: what it is is read from its content
//   BudgetAnswer a = file.answer("", 32, 20);
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "io/budget_table.hpp"

namespace tessera {

/// Writes aside, then renames. Throws RunError where the disk refuses.
void write_budget_hdf5(const std::string& path, const BudgetTable&, const std::vector<BudgetAnswer>&,
                       const DeviceHours&);

class BudgetFile {
 public:
  /// Throws InputError: missing, neither JSON nor HDF5, JSON above 2 GiB, no table of tessera, another format, damaged.
  explicit BudgetFile(const std::string& path);
  ~BudgetFile();

  const BudgetTable& table() const { return table_; }
  /// answer_budget(); BudgetAnswer::stored says whether the certainty comes from the file.
  BudgetAnswer answer(const std::string& cluster, std::int64_t nodes, double days, bool certainty = true,
                      const std::optional<BudgetTerms>& terms = {}) const;

 private:
  struct Stored;  // the open HDF5 file and its rows
  BudgetTable table_;
  std::unique_ptr<Stored> stored_;
};

}  // namespace tessera
