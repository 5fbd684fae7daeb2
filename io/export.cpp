#include "io/export.hpp"

#include <fmt/format.h>

#include <cmath>

#include "io/export_parts.hpp"
#include "io/plan_text.hpp"
#include "io/toml_reader.hpp"
#include "tessera/error.hpp"
#include "tessera/study.hpp"

namespace tessera {
namespace {

// A plan that no framework could start: said here once, in Tessera's words, instead of by a stack trace
// there.
void check_plan(const ExportRequest& r) {
  const Plan& p = r.plan;
  if (r.sequence <= 0) throw InputError("export: no sequence length", "frameworks need it", "give --seq.");
  if (p.devices() != r.cluster.devices)
    throw InputError(
        fmt::format("export: tp x cp x pp x dp = {} on {} devices", p.devices(), r.cluster.devices),
        "every device has exactly one place in the mesh", "mend the degrees or the number of nodes.");
  if (p.batch <= 0 || p.batch % (std::int64_t{1} * p.dp * p.micro_batch) != 0)
    throw InputError(
        fmt::format("export: batch {} with dp {} and micro-batch {}", p.batch, p.dp, p.micro_batch),
        "dp x micro_batch must divide the batch", "mend --batch, dp or micro_batch.");
  if (p.virtual_stages > 1 && p.pp == 1)
    throw InputError(fmt::format("export: virtual_stages = {} with pp = 1", p.virtual_stages),
                     "there is no pipeline to interleave", "use virtual_stages=1, or pp > 1.");
  const std::int64_t mesh = std::int64_t{1} * p.tp * p.cp * p.dp;
  if (mesh % (std::int64_t{1} * p.ep * p.etp) != 0)
    throw InputError(fmt::format("export: ep {} x etp {} on tp x cp x dp = {}", p.ep, p.etp, mesh),
                     "the expert mesh is cut out of the devices of a stage", "mend ep or etp.");
  if (r.architecture.is_moe() && r.architecture.experts % p.ep != 0)
    throw InputError(fmt::format("export: ep {} with {} experts", p.ep, r.architecture.experts),
                     "ep must divide the experts", "mend ep.");
}

}  // namespace

const std::vector<std::string>& export_formats() {
  static const std::vector<std::string> formats{"megatron-lm", "megatron-bridge", "nemo", "torchtitan",
                                                "deepspeed"};
  return formats;
}

Export export_plan(const ExportRequest& request, const std::string& format) {
  check(request.architecture);
  check_plan(request);
  if (format == "megatron-lm") return exporting::megatron_lm(request);
  if (format == "megatron-bridge") return exporting::megatron_bridge(request);
  if (format == "nemo") return exporting::nemo(request);
  if (format == "torchtitan") return exporting::torchtitan(request);
  if (format == "deepspeed") return exporting::deepspeed(request);
  throw InputError(fmt::format("export: unknown format '{}'", format), "there is no such exporter",
                   suggestion(format, export_formats()));
}

namespace exporting {

void cannot_express(std::string_view framework, std::string_view field, const std::string& value,
                    const std::string& why, const std::string& remedy) {
  throw InputError(fmt::format("{} cannot express {} = {}", framework, field, value), why, remedy);
}

void refuse_exotic_parts(std::string_view framework, const Architecture& a) {
  const std::string remedy = "choose another format or architecture.";
  const auto refuse = [&](std::string_view field, const std::string& value, const std::string& why) {
    cannot_express(framework, field, value, why, remedy);
  };
  if (a.mamba_layers > 0)
    refuse("mamba_layers", std::to_string(a.mamba_layers), "state-space layers are not exported");
  if (!a.pattern.empty()) refuse("pattern", a.pattern, "layers of one part each are not exported");
  if (a.linear_attention_layers > 0)
    refuse("linear_attention_layers", std::to_string(a.linear_attention_layers),
           "lightning attention has no arguments");
  if (a.shared_kv_every > 1)
    refuse("shared_kv_every", std::to_string(a.shared_kv_every), "cross-layer attention has no arguments");
  if (a.norms_per_layer != 2)
    refuse("norms_per_layer", std::to_string(a.norms_per_layer), "its layers have two norms each");
  if (a.extra_parameters > 0)
    refuse("extra_parameters", std::to_string(a.extra_parameters),
           "the part they belong to is not described");
  if (a.head_bias) refuse("head_bias", "true", "its output head has no bias");
}

std::string python_pattern(const std::vector<bool>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t run = i;
    while (run < layers.size() && layers[run] == layers[i]) ++run;
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", layers[i] ? 1 : 0, run - i);
    i = run;
  }
  return text;
}

std::vector<bool> moe_layers(const Architecture& a) {
  std::vector<bool> layers(static_cast<std::size_t>(a.layers));
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i] = a.moe_layer(static_cast<std::int64_t>(i));
  return layers;
}

std::int64_t window_period(const Architecture& a) {
  if (a.window <= 0 || a.window_share <= 0 || a.window_share >= 1) return 0;
  const double period = 1.0 / (1.0 - a.window_share);
  const auto whole = static_cast<std::int64_t>(std::llround(period));
  const bool regular =
      std::abs(period - static_cast<double>(whole)) < 1e-6;  // 5/6 and the like are rounded in files
  return regular && a.layers % whole == 0 ? whole : 0;
}

std::vector<bool> window_layers(const Architecture& a) {
  std::vector<bool> layers(static_cast<std::size_t>(a.layers));
  const auto period = static_cast<std::size_t>(window_period(a));
  double carried = 0.5;  // half a layer: the share is met to the nearest whole layer
  for (std::size_t i = 0; i < layers.size(); ++i) {
    carried += a.window > 0 ? a.window_share : 0.0;
    layers[i] = period > 0 ? (i + 1) % period != 0 : carried >= 1.0;
    if (carried >= 1.0) carried -= 1.0;
  }
  return layers;
}

std::vector<std::string> heading(const ExportRequest& r) {
  const Cluster& c = r.cluster;
  std::vector<std::string> lines{
      fmt::format("Architecture {}, sequence {} tokens.", r.architecture.name, r.sequence),
      fmt::format("Plan {}.", to_text(r.plan)),
      fmt::format("Meant for {} x {} ({} nodes of {}), stack {}.", c.devices, c.device.name, nodes_of(c),
                  c.fabric.node_devices, c.stack.name)};
  if (!r.architecture.left_out.empty())
    lines.push_back(
        fmt::format("Left out of the counts: {}.", r.architecture.left_out));
  return lines;
}

}  // namespace exporting
}  // namespace tessera
