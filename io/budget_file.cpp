#include "io/budget_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "io/architecture_fields.hpp"
#include "io/budget_draws.hpp"
#include "io/budget_rows.hpp"
#include "io/budget_table_parts.hpp"
#include "io/text_file.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

using namespace budgets;

constexpr std::uintmax_t kLargestJson = std::uintmax_t{2} << 30;  // [B] its objects take about ten times that
constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";

bool is_hdf5(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string start(kSignature.size(), '\0');
  return stream.read(start.data(), static_cast<std::streamsize>(start.size())) && start == kSignature;
}

template <class Row>
std::vector<Row> whole_group(const Hdf5Reader& file, const std::string& group,
                             std::span<const Column<Row>> columns) {
  std::vector<Row> rows(file.rows(group + "/" + columns.front().name));
  for (const auto& column : columns)
    if (file.rows(group + "/" + column.name) != rows.size())
      throw std::invalid_argument(group + "/" + column.name + " has another length than its neighbours");
  read_columns(file, group, 0, columns, rows);
  return rows;
}

struct FieldReader {
  const Hdf5Reader& file;
  std::vector<Architecture>& list;
  std::string path;
  template <class T>
  void operator()(T Architecture::*member) const {
    if constexpr (std::is_enum_v<T>) {  // words are read as every other text of an architecture is
      const auto texts = file.texts(path);
      for (std::size_t i = 0; i < list.size(); ++i)
        set_field(list[i], *architecture_field(path.substr(path.rfind('/') + 1)), texts.at(i), path);
    } else {
      const auto values = read_column<T>(file, path, 0, list.size());
      for (std::size_t i = 0; i < list.size(); ++i) list[i].*member = values[i];
    }
  }
};

void read_architectures(const Hdf5Reader& file, BudgetTable& t) {
  const auto names = file.texts("/architectures/name");
  t.architectures.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) t.architectures[i].name = names[i];
  for (const auto& field : architecture_fields())
    std::visit(FieldReader{file, t.architectures, "/architectures/" + std::string(field.key)}, field.member);
  for (const Architecture& a : t.architectures) {
    check(a);
    t.counts.push_back(count_parameters(a));
  }
}

Plan& plan_of(TableCandidate& c) { return c.plan; }

BudgetTable read_table(const Hdf5Reader& file) {
  BudgetTable t;
  const auto settings = file.texts("/table/settings");
  if (settings.size() != 1) throw std::invalid_argument("/table/settings is not one text");
  read_settings(nlohmann::json::parse(settings.front()), file.path(), t);
  t.clusters = whole_group(file, "/clusters", cluster_columns());
  read_architectures(file, t);
  t.candidates = whole_group(file, "/candidates", candidate_columns());
  read_columns(file, "/candidates", 0, plan_columns<TableCandidate, plan_of>(), t.candidates);
  check_parts(t);
  return t;
}

void check_format(const Hdf5Reader& file) {
  if (file.has_attribute("/study", "format"))
    throw InputError(file.path() + " holds the results of a sweep, not a table",
                     "lookup answers from a table",
                     fmt::format("make one with: tessera table {} -o TABLE.h5", file.path()));
  if (!file.has_attribute("/table", "format"))
    not_a_table(file.path(), "it has no /table with an attribute `format`");
  if (const auto format = file.integer_attribute("/table", "format"); format != kBudgetFormat)
    not_a_table(file.path(), fmt::format("its format is {}, this program reads {}", format, kBudgetFormat));
}

/// What `read` returns; any failure of it as one of a table, since the HDF5 layer advises on results.
template <class Read>
auto guarded(const std::string& path, const Read& read) {
  std::string why;
  try {
    return read();
  } catch (const InputError& error) {  // "PATH: problem (why) remedy"
    why = error.what();
    if (why.rfind(path + ": ", 0) == 0) why.erase(0, path.size() + 2);
    why = why.substr(0, why.find(" ("));
  } catch (const std::exception& error) {  // of the JSON library, or a value out of range
    why = error.what();
  }
  not_a_table(path, "damaged: " + why);
}

}  // namespace

/// Rows are read when first asked for; verdicts, row by row.
struct BudgetFile::Stored {
  Hdf5Reader file;
  mutable std::vector<FileRow> rows;
  mutable std::vector<FileAlternative> alternatives;
  mutable bool read = false;

  explicit Stored(const std::string& path) : file(path) {}

  void read_rows() const {
    if (read) return;
    rows = whole_group(file, "/rows", row_keys());
    alternatives = whole_group(file, "/alternatives", alternative_columns());
    read = true;
  }

  bool alternatives_of(std::size_t row, const BudgetTable& t, BudgetAnswer& a) const {
    std::size_t found = 0;
    for (const FileAlternative& f : alternatives) {
      if (f.row != row || f.choice.architecture >= t.architectures.size()) continue;
      if (f.assumption == "without_token_cap") {
        a.without_cap = f.choice;
        continue;
      }
      for (const auto& [name, choice] : {std::pair{"law", &a.law_only},
                                         {"time", &a.time_only},
                                         {"form", &a.form_only},
                                         {"compressed_spread", &a.compressed}})
        if (f.assumption == name) *choice = f.choice, ++found;
    }
    return found == 4 && a.without_cap.has_value() == t.bounds.high.has_value();
  }

  /// Fills the certainty of a ranked answer from the row of its budget; false where there is none.
  bool fill(const BudgetTable& t, BudgetAnswer& a) const {
    read_rows();
    const auto at = std::find_if(rows.begin(), rows.end(), [&](const FileRow& r) {
      return r.trainable && r.cluster == a.cluster && r.nodes == a.nodes && r.days == a.days &&
             r.terms() == a.terms;
    });
    if (at == rows.end() || at->considered == 0 || at->considered > a.candidates.size() || at->draws == 0 ||
        at->chosen >= at->considered)
      return false;
    std::vector<FileVerdict> verdicts(at->considered);
    read_columns(file, "/verdicts", at->first_verdict, verdict_columns(), verdicts);
    Decision d;
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      if (verdicts[i].architecture != a.candidates[i].architecture ||
          verdicts[i].loss != a.candidates[i].loss)
        return false;  // another ranking: not the row of these candidates
      d.verdicts.push_back(verdicts[i].verdict);
    }
    if (!alternatives_of(static_cast<std::size_t>(at - rows.begin()), t, a)) return false;
    d.choice = at->chosen;
    d.near_ties = at->near_ties;
    d.least_mean = at->least_mean;
    d.optimism = at->optimism;
    d.ninety_set = ninety_set(d.verdicts, at->draws);
    a.decision = std::move(d);
    a.considered = at->considered;
    a.draws = at->draws;
    a.loss_sd = at->loss_sd;
    a.regret_in_hours = at->regret_share;
    add_tied_ranges(t, a);
    return true;
  }
};

BudgetFile::BudgetFile(const std::string& path) {
  if (!is_hdf5(path)) {
    const std::string instead = "write the table as HDF5, which is read in parts: tessera table RESULTS -o NAME.h5";
    table_ = table_from_json(read_text_file(path, "a table written by tessera table -o", kLargestJson, instead), path);
    return;
  }
  stored_ = guarded(path, [&] { return std::make_unique<Stored>(path); });
  check_format(stored_->file);
  table_ = guarded(path, [&] { return read_table(stored_->file); });
}

BudgetFile::~BudgetFile() = default;

BudgetAnswer BudgetFile::answer(const std::string& cluster, std::int64_t nodes, double days, bool certainty,
                                const std::optional<BudgetTerms>& terms) const {
  if (!stored_) return answer_budget(table_, cluster, nodes, days, certainty, terms);
  return answer_budget(table_, cluster, nodes, days, certainty, terms, [&](BudgetAnswer& a) {
    return guarded(stored_->file.path(), [&] { return stored_->fill(table_, a); });
  });
}

}  // namespace tessera
