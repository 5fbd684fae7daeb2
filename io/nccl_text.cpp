#include "io/nccl_text.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "io/kernel_fit_table.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

std::optional<CollectiveKind> kind_in(const std::string& name) {
  const std::pair<const char*, CollectiveKind> words[] = {
      {"all_reduce", CollectiveKind::all_reduce},   {"allreduce", CollectiveKind::all_reduce}, {"all_gather", CollectiveKind::all_gather},
      {"allgather", CollectiveKind::all_gather},    {"reduce_scatter", CollectiveKind::reduce_scatter}, {"reducescatter", CollectiveKind::reduce_scatter},
      {"alltoall", CollectiveKind::all_to_all},     {"all_to_all", CollectiveKind::all_to_all}, {"sendrecv", CollectiveKind::point_to_point}};
  for (const auto& [word, kind] : words)
    if (name.find(word) != std::string::npos) return kind;
  return std::nullopt;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> out;
  for (std::string word; stream >> word;) out.push_back(word);
  return out;
}

// mpirun --tag-output puts "[1,0]<stdout>:" before each line.
std::string without_prefix(const std::string& line) {
  const std::size_t at = line.find("<stdout>:");
  return line.starts_with("[") && at != std::string::npos ? line.substr(at + 9) : line;
}

std::optional<double> number_of(const std::string& word) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (end != word.c_str() + word.size() || word.empty()) return std::nullopt;
  return value;
}

struct Header {
  std::size_t columns = 0, time = 0;  ///< position of the out-of-place time, counted from the end of a row
};

// "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw ...": rows may lack words in the middle, never at the end.
std::optional<Header> header_of(const std::vector<std::string>& words) {
  const auto time = std::find(words.begin(), words.end(), "time");
  if (words.size() < 5 || words[0] != "#" || words[1] != "size" || time == words.end()) return std::nullopt;
  return Header{words.size() - 1, static_cast<std::size_t>(words.end() - time)};
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file), kind_(kind_in(base_name(file))) {}

  void line(const std::string& raw, std::size_t number) {
    const std::string line = without_prefix(raw);
    const auto words = words_of(line);
    if (words.empty()) return;
    if (words[0] != "#" && words[0][0] != '#') return row(words, number);
    if (line.find("Collective test starting:") != std::string::npos) {
      kind_ = kind_in(words.back());
      if (!kind_) fail(number, "unknown test '" + words.back() + "'", "its volume is not known", "use all_reduce, all_gather, reduce_scatter, alltoall or sendrecv.");
    } else if (line.find("nThread") != std::string::npos || line.find("Using devices") != std::string::npos) {
      ranks_ = 0;
      hosts_.clear();
    } else if (words.size() > 2 && words[1] == "Rank") {
      rank(words, number);
    } else if (const auto header = header_of(words)) {
      header_ = header;
    }
  }

  std::vector<CollectiveCell> cells() const {
    if (!cells_.empty()) return cells_;
    throw InputError(file_ + ": no timed row", header_ ? "every time is 0 or there is no row below the header" : "the header line '# size count type ... time algbw busbw' is missing",
                     "give the unchanged output of an nccl-tests program.");
  }

 private:
  [[noreturn]] void fail(std::size_t number, const std::string& problem, const std::string& why, const std::string& remedy) const {
    throw InputError(fmt::format("{}:{}: {}", file_, number, problem), why, remedy);
  }

  void rank(const std::vector<std::string>& words, std::size_t number) {
    const auto on = std::find(words.begin(), words.end(), "on");
    if (on == words.end() || on + 1 == words.end()) fail(number, "a rank without its host", "nodes are counted from 'on HOST'", "give the unchanged output.");
    ++ranks_;
    hosts_.insert(*(on + 1));
  }

  void row(const std::vector<std::string>& words, std::size_t number) {
    if (!header_ || !number_of(words[0])) return;  // messages of other programs between the lines
    if (words.size() < header_->time + 1) fail(number, "a row of too few columns", "the header has more", "give the unchanged output.");
    const auto seconds = number_of(words[words.size() - header_->time]);
    if (!seconds) fail(number, "time is '" + words[words.size() - header_->time] + "'", "a number of microseconds is needed", "give the unchanged output.");
    if (!kind_) fail(number, "which collective was timed is not known", "neither the text nor the file's name says it", "name the file after the test, for example all_reduce_perf.txt.");
    if (ranks_ < 2) fail(number, fmt::format("{} ranks", ranks_), "a collective needs two, counted from the '# Rank' lines", "give the unchanged output.");
    const double bytes = *number_of(words[0]);
    if (bytes <= 0 || *seconds <= 0) return;  // a size below one element per rank is not run
    if (ranks_ % hosts_.size() != 0) fail(number, fmt::format("{} ranks on {} nodes", ranks_, hosts_.size()), "nodes must hold the same number", "run it again.");
    CollectiveCell c;
    c.kind = *kind_;
    c.ranks = static_cast<double>(ranks_);
    c.nodes = static_cast<double>(hosts_.size());
    c.bytes = bytes;
    c.seconds = 1e-6 * *seconds;
    c.file = file_;
    cells_.push_back(c);
  }

  std::string file_;
  std::optional<CollectiveKind> kind_;
  std::optional<Header> header_;
  std::size_t ranks_ = 0;
  std::set<std::string> hosts_;
  std::vector<CollectiveCell> cells_;
};

}  // namespace

std::vector<CollectiveCell> nccl_cells(const std::string& text, const std::string& file) {
  Reader reader(file);
  std::istringstream stream(text);
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) reader.line(line, ++number);
  return reader.cells();
}

}  // namespace tessera
