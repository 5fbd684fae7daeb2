#include "io/ledger.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "io/chunk_codec.hpp"

namespace tessera {
namespace {

std::uint32_t text_crc(std::string_view text) {
  return crc32({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

std::string extent_text(const Extent& e) { return fmt::format("{} {} {:08x}", e.offset, e.bytes, e.crc); }

bool parse(const std::string& word, std::uint64_t& value, int base = 10) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  return error == std::errc() && end == word.data() + word.size();
}

bool parse_extent(std::istringstream& in, const char* name, Extent& extent) {
  std::string word, offset, bytes, crc;
  std::uint64_t value = 0;
  if (!(in >> word >> offset >> bytes >> crc) || word != name || !parse(offset, extent.offset) || !parse(bytes, extent.bytes) ||
      !parse(crc, value, 16) || value > 0xffffffffu)
    return false;
  extent.crc = static_cast<std::uint32_t>(value);
  return true;
}

bool parse_line(const std::string& line, LedgerEntry& entry) {
  const std::size_t tail = line.rfind(" crc ");
  std::uint64_t crc = 0;
  if (tail == std::string::npos || !parse(line.substr(tail + 5), crc, 16) || crc != text_crc(std::string_view(line).substr(0, tail)))
    return false;
  std::istringstream in(line.substr(0, tail));
  std::string unit, segment, rows, manifest, number, count, hash;
  if (!(in >> unit >> number >> segment >> entry.segment >> rows >> count) || unit != "unit" || segment != "segment" || rows != "rows")
    return false;
  if (!parse(number, entry.unit) || !parse(count, entry.rows)) return false;
  if (!parse_extent(in, "summary", entry.summary) || !parse_extent(in, "columns", entry.columns)) return false;
  return in >> manifest >> hash && manifest == "manifest" && parse(hash, entry.manifest, 16);
}

}  // namespace

std::string ledger_line(const LedgerEntry& e) {
  const std::string body = fmt::format("unit {} segment {} rows {} summary {} columns {} manifest {:016x}", e.unit, e.segment, e.rows,
                                       extent_text(e.summary), extent_text(e.columns), e.manifest);
  return fmt::format("{} crc {:08x}", body, text_crc(body));
}

LedgerWriter::LedgerWriter(const std::string& folder, int rank)
    : file_(fmt::format("{}/ledger/rank-{:04}.txt", folder, rank), File::Mode::append) {
  // A line torn by a kill has no end: start on a line of our own.
  if (file_.size() > 0) file_.write({reinterpret_cast<const std::uint8_t*>("\n"), 1});
}

void LedgerWriter::append(const std::vector<LedgerEntry>& entries) {
  std::string text;
  for (const auto& entry : entries) text += ledger_line(entry) + "\n";
  file_.write({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  file_.sync();
}

Ledger read_ledger(const std::string& folder) {
  Ledger ledger;
  std::error_code code;
  std::vector<std::string> paths;
  for (const auto& file : std::filesystem::directory_iterator(folder + "/ledger", code))
    if (file.path().extension() == ".txt") paths.push_back(file.path().string());
  std::sort(paths.begin(), paths.end());
  std::map<std::uint64_t, LedgerEntry> last;
  for (const auto& path : paths) {
    std::istringstream lines(read_text(path));
    std::string line;
    for (std::uint64_t number = 1; std::getline(lines, line); ++number) {
      LedgerEntry entry;
      if (line.empty()) continue;
      if (parse_line(line, entry)) last[entry.unit] = entry;
      else ledger.notices.push_back(fmt::format("{}:{}: a torn or damaged line was skipped; its unit is evaluated again.", path, number));
    }
  }
  for (auto& [unit, entry] : last) ledger.entries.push_back(std::move(entry));
  return ledger;
}

}  // namespace tessera
