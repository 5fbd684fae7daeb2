// Fits of timing tables: constants that made a table come back from it, outliers do not decide, the text of nccl-tests is read, and the
// errors on published tables stay what docs/calibration.md says.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "io/kernel_fit.hpp"
#include "io/nccl_text.hpp"
#include "io/preset_reader.hpp"
#include "model/kernels.hpp"
#include "tessera/error.hpp"

using namespace tessera;

namespace {

DeviceTables tables_of(const std::string& preset, const std::string& rows) {
  DeviceTables t;
  t.device = Presets().device(preset);
  t.preset = preset;
  t.rows = rows;
  return t;
}

const FittedConstant& constant(const KernelFits& fits, const std::string& key, const std::string& preset = "") {
  for (const auto& c : fits.constants)
    if (c.key == key && (preset.empty() || c.preset == preset)) return c;
  throw std::runtime_error("no constant " + key);
}

const TableFit& fit_named(const KernelFits& fits, const std::string& what) {
  for (const auto& f : fits.fits)
    if (f.what == what) return f;
  throw std::runtime_error("no fit " + what);
}

const ErrorClass& error_named(const TableFit& fit, const std::string& label) {
  for (const auto& e : fit.errors)
    if (e.label == label) return e;
  throw std::runtime_error("no class " + label);
}

void check_errors(const ErrorClass& e, double median, double p90) {
  INFO(e.label << ": " << e.cells << " cells");
  CHECK(e.median_abs_pct <= median);
  CHECK(e.p90_abs_pct <= p90);
}

std::string published(const std::string& file) {
  const char* folder = std::getenv("TESSERA_DATA");
  const std::string path = (folder ? std::string(folder) : std::string(TESSERA_SOURCE_DIR) + "/../shared/data") + "/calibration/" + file;
  if (std::filesystem::exists(path)) return path;
  std::cout << "skipped: " << file << " is not there (set TESSERA_DATA)\n";
  return "";
}

// A GEMM table made by the form itself; every 40th cell is three times too slow.
std::string made_gemm_table(const Device& d, double burst, double sustained, double throttle, double launch) {
  Device kernel = d;
  kernel.gemm_ceiling = burst;
  kernel.gemm_tile_half = 20;
  kernel.gemm_depth = 200;
  kernel.gemm_split_seconds = 5e-6;
  kernel.hbm_share = 0.75;
  kernel.kernel_gap = 0;
  std::ostringstream out;
  out.precision(12);
  out << "device,dtype,M,N,K,time_ms\n";
  int cell = 0;
  for (const double m : {128., 512., 1024., 3072., 4096., 16384.})
    for (const double n : {256., 768., 2048., 5120., 16384.})
      for (const double k : {64., 512., 1536., 4096., 16384.}) {
        const double g = gemm_seconds(kernel, m, n, k, 1, 2);
        const double t = launch + std::max(g, g / (g + throttle) * 2 * m * n * k / (d.peak_bf16 * sustained));
        out << "x,bf16," << m << "," << n << "," << k << "," << 1e3 * t * (++cell % 40 == 0 ? 3 : 1) << "\n";
      }
  return out.str();
}

}  // namespace

TEST_CASE("a GEMM table gives back the constants it was made of, in spite of outliers") {
  const DeviceTables t = tables_of("b200", "X");
  KernelFits fits;
  fit_gemm(fits, t, CsvTable::parse(made_gemm_table(t.device, 0.8, 0.6, 4e-4, 1.2e-5), "made"), "folder/made.csv");
  const FitForm& form = fits.fits.front().form;
  CHECK(form.value("burst_share") == Approx(0.8).epsilon(0.02));
  CHECK(form.value("sustained_share") == Approx(0.6).epsilon(0.02));
  CHECK(form.value("tile_half") == Approx(20).epsilon(0.1));
  CHECK(form.value("launch_seconds") == Approx(1.2e-5).epsilon(0.02));
  CHECK(constant(fits, "gemm_depth").value == Approx(200).epsilon(0.05));
  CHECK(constant(fits, "hbm_share").value == Approx(0.75).epsilon(0.02));
  // In a step the ceiling is the sustained rate before the losses of the best tile, 256x256.
  CHECK(constant(fits, "gemm_ceiling").value == Approx(0.6 * (128 + 20) / 128).epsilon(0.03));
  CHECK(fits.fits.front().errors.front().median_abs_pct < 1);
  CHECK(constant(fits, "gemm_depth").source.find("made.csv, GEMM bf16: 150 cells") == 0);
  for (const auto& c : fits.constants) {
    CHECK(c.low <= c.value);
    CHECK(c.value <= c.high);
  }
}

TEST_CASE("a fit is the same every time") {
  const DeviceTables t = tables_of("h100", "x");
  const CsvTable table = CsvTable::parse(made_gemm_table(t.device, 0.9, 0.7, 2e-4, 2e-5), "made");
  KernelFits a, b;
  fit_gemm(a, t, table, "made.csv");
  fit_gemm(b, t, table, "made.csv");
  REQUIRE(a.constants.size() == b.constants.size());
  for (std::size_t i = 0; i < a.constants.size(); ++i) {
    CHECK(a.constants[i].value == b.constants[i].value);
    CHECK(a.constants[i].low == b.constants[i].low);
  }
}

TEST_CASE("tables that cannot be fitted are refused with the reason") {
  const DeviceTables t = tables_of("b200", "b200");
  KernelFits fits;
  const auto gemm = [&](const std::string& text) { fit_gemm(fits, t, CsvTable::parse(text, "t"), "t"); };
  CHECK_THROWS_WITH(gemm("device,M,N,time_ms\nb200,1,2,3\n"), Catch::Contains("column 'K' is missing"));
  CHECK_THROWS_WITH(gemm("device,M,N,K,time_ms\nh100,512,512,512,1\n"), Catch::Contains("no row of device 'b200'") && Catch::Contains("h100"));
  CHECK_THROWS_WITH(gemm("device,M,N,K,time_ms\nb200,512,many,512,1\n"), Catch::Contains("t:2: N is 'many'"));
  CHECK_THROWS_WITH(gemm("device,M,N,K,time_ms\nb200,512,512,512,1\n"), Catch::Contains("1 cells"));
  CHECK_THROWS_AS(gemm("device,M,N,K,time_ms\nb200,512,512,-512,1\n"), InputError);
  CHECK_THROWS_WITH(gemm("device,M,N,K,time_ms,status\nb200,512,512,512,1,OOM\n"), Catch::Contains("no rows"));
  CHECK(fits.fits.empty());
}

TEST_CASE("an outlier of an all-to-all does not decide, and is named") {
  std::vector<CollectiveCell> cells;
  for (const double ranks : {16., 32.})
    for (double bytes = 1e6; bytes < 1e9; bytes *= 2) {
      CollectiveCell c{CollectiveKind::all_to_all, ranks, ranks / 8, bytes, 0, "a.csv"};
      c.seconds = 1e-4 + 4e-6 * (ranks - 8) + bytes * (ranks - 8) / ranks / 4.4e10;
      cells.push_back(c);
    }
  cells[8].seconds *= 3;
  KernelFits fits;
  LinkTables links;
  links.across.bandwidth = 5e10;
  links.across_preset = "network-400";
  fit_collectives(fits, links, cells);
  CHECK(constant(fits, "share").value == Approx(0.88).epsilon(1e-3));
  CHECK(constant(fits, "latency").value == Approx(1e-4).epsilon(1e-2));
  CHECK(constant(fits, "peer_latency").value == Approx(4e-6).epsilon(1e-2));
  REQUIRE_FALSE(fits.fits.front().notes.empty());
  CHECK(fits.fits.front().notes.front().find("left out: 256 MB on 16 ranks") == 0);

  links.across.bandwidth = 1e10;  // slower than what was measured
  CHECK_THROWS_WITH(fit_collectives(fits, links, cells), Catch::Contains("4.4 times the line rate"));
  links.inside.bandwidth = 9e11;
  links.inside_preset = "nvlink5";
  CHECK_THROWS_WITH(fit_collectives(fits, links, cells), Catch::Contains("no table measures link 'nvlink5'"));
}

namespace {

// The layout of nccl-tests 2.13: eight ranks on `hosts` hosts, all-gather at 300 GB/s of bus bandwidth after 30 us.
std::string nccl_text(int hosts, const std::string& prefix, const std::string& name_line) {
  std::ostringstream out;
  out << prefix << "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
      << name_line << prefix << "#\n" << prefix << "# Using devices\n";
  for (int rank = 0; rank < 8; ++rank)
    out << prefix << "#  Rank  " << rank << " Group  0 Pid  4000" << rank << " on node" << rank * hosts / 8 << " device  " << rank % (8 / hosts) << " [0x0f] NVIDIA H100 80GB HBM3\n";
  out << prefix << "#\n" << prefix << "#                                                              out-of-place                       in-place\n"
      << prefix << "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
      << prefix << "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
      << prefix << "           0             0     float    none      -1     0.14    0.00    0.00      0     0.14    0.00    0.00      0\n"
      << "NCCL version 2.18.5+cuda12.2\n";
  for (double bytes = 1 << 20; bytes <= 1 << 30; bytes *= 2) {
    const double us = 30 + 1e6 * bytes * 7 / 8 / 3e11;
    out << prefix << "  " << static_cast<long>(bytes) << "  " << static_cast<long>(bytes / 32) << "     float    none      -1  " << us << "  " << bytes / us / 1e3 << "  " << bytes / us / 1e3 * 7 / 8
        << "      0   1.00    9.99    9.99    N/A\n";
  }
  out << prefix << "# Out of bounds values : 0 OK\n" << prefix << "# Avg bus bandwidth    : 220.1\n";
  return out.str();
}

}  // namespace

TEST_CASE("the plain output of nccl-tests gives cells and a link's constants") {
  for (const std::string prefix : {"", "[1,0]<stdout>:"}) {
    const auto cells = nccl_cells(nccl_text(1, prefix, ""), "logs/all_gather_perf_8.txt");
    REQUIRE(cells.size() == 11);
    CHECK(cells.front().kind == CollectiveKind::all_gather);
    CHECK(cells.front().ranks == 8);
    CHECK(cells.front().nodes == 1);
    CHECK(cells.front().bytes == 1048576);
    CHECK(cells.back().seconds == Approx(30e-6 + 1073741824.0 * 7 / 8 / 3e11).epsilon(1e-5));
    KernelFits fits;
    LinkTables links;
    links.inside.bandwidth = 4.5e11;
    links.inside_preset = "nvlink4";
    fit_collectives(fits, links, cells);
    CHECK(constant(fits, "share").value == Approx(3e11 / 4.5e11).epsilon(0.02));
    CHECK(fits.fits.front().errors.front().p90_abs_pct < 2);
  }
  CHECK(nccl_cells(nccl_text(2, "", ""), "all_reduce.txt").front().nodes == 2);
  const auto named = nccl_cells(nccl_text(1, "", "# Collective test starting: alltoall_perf\n"), "all_reduce.txt");
  CHECK(named.front().kind == CollectiveKind::all_to_all);
  const auto two = nccl_cells(nccl_text(1, "", "# Collective test starting: alltoall_perf\n") + nccl_text(2, "", "# Collective test starting: all_reduce_perf\n"), "log.txt");
  REQUIRE(two.size() == 22);
  CHECK(two.back().ranks == 8);
  CHECK(two.back().kind == CollectiveKind::all_reduce);
}

TEST_CASE("text that is no output of nccl-tests is refused with the reason") {
  CHECK_THROWS_WITH(nccl_cells("hello\n", "all_reduce.txt"), Catch::Contains("header line"));
  CHECK_THROWS_WITH(nccl_cells(nccl_text(1, "", ""), "log.txt"), Catch::Contains("which collective"));
  CHECK_THROWS_WITH(nccl_cells(nccl_text(1, "", "# Collective test starting: gemm_perf\n"), "log.txt"), Catch::Contains("unknown test 'gemm_perf'"));
  std::string torn = nccl_text(1, "", "");
  torn = torn.substr(0, torn.find("  1048576")) + "  1048576 9\n";
  CHECK_THROWS_WITH(nccl_cells(torn, "all_reduce.txt"), Catch::Contains("too few columns"));
  std::string no_ranks = nccl_text(1, "", "");
  while (no_ranks.find("#  Rank") != std::string::npos) no_ranks.replace(no_ranks.find("#  Rank"), 7, "#  Nobody");
  CHECK_THROWS_WITH(nccl_cells(no_ranks, "all_reduce.txt"), Catch::Contains("0 ranks"));
}

TEST_CASE("errors on the published GEMM tables") {
  const std::string file = published("gemm_util.csv");
  if (file.empty()) return;
  const CsvTable table = CsvTable::read(file);
  KernelFits b200, h100;
  fit_gemm(b200, tables_of("b200", "b200"), table, file);
  fit_gemm(h100, tables_of("h100", "h100"), table, file);
  const TableFit &b = fit_named(b200, "GEMM bf16"), &h = fit_named(h100, "GEMM bf16");
  check_errors(error_named(b, "all dimensions >= 512"), 4.2, 14.6);
  check_errors(error_named(b, "smallest dimension 64 to 511"), 6.3, 22.1);
  check_errors(error_named(h, "all dimensions >= 512"), 4.5, 15.7);
  check_errors(error_named(h, "smallest dimension 64 to 511"), 10.1, 21.7);
  check_errors(fit_named(b200, "GEMM fp8").errors.front(), 8.6, 22);
  CHECK(constant(b200, "hbm_share").value == Approx(0.81).epsilon(0.03));
  CHECK(constant(h100, "hbm_share").value == Approx(0.81).epsilon(0.03));
  CHECK(constant(h100, "gemm_ceiling").value == Approx(0.89).epsilon(0.05));
  CHECK(constant(b200, "fp8_ratio").value == Approx(1.75).epsilon(0.05));
}

TEST_CASE("errors on the published kernel tables of B200, H200 and A100") {
  const std::string grouped = published("gemm_grouped_b200.csv"), attention = published("sdpa_fwd_bwd_timings.csv"), loss = published("vocab_gemm_ce_b200.csv");
  if (grouped.empty() || attention.empty() || loss.empty()) return;
  KernelFits fits;
  const DeviceTables b200 = tables_of("b200", "b200");
  fit_grouped(fits, b200, CsvTable::read(grouped), grouped);
  check_errors(error_named(fit_named(fits, "grouped GEMM forward"), "host-bound"), 1.1, 4.5);
  check_errors(error_named(fit_named(fits, "grouped GEMM forward"), "device-bound"), 6.5, 14.4);
  check_errors(error_named(fit_named(fits, "grouped GEMM backward"), "host-bound"), 1.9, 10.4);
  check_errors(error_named(fit_named(fits, "grouped GEMM backward"), "device-bound"), 7.3, 18.3);
  CHECK(constant(fits, "host_expert_seconds").value == Approx(1.3e-4).epsilon(0.02));  // "one expert costs 130 us of host"
  fit_cross_entropy(fits, b200, CsvTable::read(loss), loss);
  CHECK(fit_named(fits, "cross-entropy forward and backward").form.value("passes") == Approx(19.6).epsilon(0.01));
  check_errors(fit_named(fits, "cross-entropy forward and backward").errors.front(), 0.5, 1.0);
  const CsvTable table = CsvTable::read(attention);
  const struct { const char *preset, *rows; double median, p90; } devices[] = {{"b200", "b200", 2.2, 7.8}, {"h200", "h200", 3.0, 8.0}, {"a100-40", "a100", 2.1, 6.4}};
  for (const auto& d : devices) {
    KernelFits one;
    fit_attention(one, tables_of(d.preset, d.rows), table, attention, "");
    check_errors(one.fits.back().errors.front(), d.median, d.p90);
    check_errors(fit_named(one, "attention forward (te)").errors.front(), 2.3, 7.1);
    check_errors(fit_named(one, "attention backward (te)").errors.front(), 4.2, 9.2);
  }
}

TEST_CASE("errors on the published collectives, and links that agree with them") {
  KernelFits fits;
  std::vector<CollectiveCell> cells;
  for (const char* name : {"a2a_b200_4node.csv", "a2a_b200_inter_rerun.csv", "dp_collectives_b200_4node.csv", "dp_collectives_b200_stride8.csv"}) {
    const std::string file = published(name);
    if (file.empty()) return;
    const auto more = collective_cells(CsvTable::read(file), file, "b200", 8);
    cells.insert(cells.end(), more.begin(), more.end());
  }
  LinkTables links;
  links.inside = Presets().link("nvlink5");
  links.across = Presets().link("network-400");
  links.inside_preset = "nvlink5";
  links.across_preset = "network-400";
  fit_collectives(fits, links, cells);
  check_errors(fit_named(fits, "all-to-all inside a node").errors.front(), 4.5, 15.4);
  check_errors(fit_named(fits, "all-to-all across whole nodes").errors.front(), 3.3, 5.7);
  for (const char* what : {"all-gather across whole nodes", "reduce-scatter across whole nodes", "all-reduce across whole nodes"}) check_errors(fit_named(fits, what).errors.front(), 5, 16);
  std::size_t left_out = 0;
  for (const auto& note : fit_named(fits, "all-to-all across whole nodes").notes) left_out += note.find("left out: 302 MB on 16 ranks") == 0;
  CHECK(left_out == 2);
  CHECK(constant(fits, "share", "nvlink5").value == Approx(0.72).epsilon(0.03));
  CHECK(constant(fits, "share", "network-400").value == Approx(0.90).epsilon(0.03));
  CHECK(constant(fits, "peer_latency", "network-400").value == Approx(3.9e-6).epsilon(0.1));
}

TEST_CASE("independent of k, as the top-k tables show") {
  for (const char* device : {"a100", "b200", "h200"}) {
    const std::string file = published(std::string("topk_") + device + ".csv");
    if (file.empty()) return;
    KernelFits fits;
    fit_topk(fits, tables_of(device == std::string("a100") ? "a100-40" : device, device), CsvTable::read(file), file);
    REQUIRE(fits.fits.size() == 2);
    for (const auto& fit : fits.fits) check_errors(fit.errors.front(), 3.5, 14);
    CHECK(fits.constants.empty());
  }
}
