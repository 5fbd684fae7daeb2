// tessera count: exact parameter counts of one or more architectures.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "io/architecture_reader.hpp"
#include "io/budget_terms.hpp"
#include "io/serving_reader.hpp"
#include "src/budget_options.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> named, specs;  ///< without and with -a
  bool all = false;
  ServingOptions serving;
};

/// 46702792704 -> "46,702,792,704".
std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

Json to_json(const Architecture& a, const ServingLoad& load) {
  const ParameterCount n = count_parameters(a);
  Json out;
  out["architecture"] = architecture_json(a);
  out.update(count_json(n));
  if (load.stated()) out["serving"] = serving_json(a, n, load);
  out["left_out"] = a.left_out;
  return out;
}

std::string attention_text(const Architecture& a) {
  std::string text;
  if (a.attention == AttentionKind::mla) {
    text = fmt::format("{} heads, latent (MLA): query {}, key/value {}, head {}+{} rotary, value {}", a.heads,
                       a.q_lora > 0 ? fmt::format("latent {}", a.q_lora) : "uncompressed", a.kv_lora, a.qk_nope, a.qk_rope, a.v_head);
  } else {
    text = fmt::format("{} heads of {}, {} key/value heads", a.heads, a.head_dim, a.kv_heads);
  }
  if (a.linear_attention_layers > 0) text += fmt::format("; {} layers linear", a.linear_attention_layers);
  if (a.shared_kv_every > 1) text += fmt::format("; keys and values shared by {} layers", a.shared_kv_every);
  if (a.window > 0) text += fmt::format("; window of {} tokens on {:.4g} % of the layers", a.window, 100 * a.window_share);
  return text;
}

std::string ffn_text(const Architecture& a) {
  const std::int64_t moe = a.moe_layer_count(), dense = a.ffn_layer_count() - moe;
  std::string text = fmt::format("{} matrices", a.gated ? "3 (gated)" : "2 (ungated)");
  if (dense > 0) text += fmt::format("; {} dense layers {} wide", dense, a.dense_ffn);
  if (moe > 0) {
    text += fmt::format("; {} MoE layers: {} experts {} wide, top {}", moe, a.experts, a.expert_ffn, a.top_k);
    text += a.shared_ffn > 0 ? fmt::format(", shared expert {} wide", a.shared_ffn) : ", no shared expert";
    text += fmt::format(", split factor {:.4g}", a.split);
  }
  return text;
}

std::string layers_text(const Architecture& a) {
  std::string text = fmt::format("{} layers, hidden width {}, vocabulary {} ({})", a.layers, a.hidden, grouped(a.vocabulary), a.tied ? "tied" : "untied");
  if (!a.pattern.empty())
    text += fmt::format(", one part a layer: {} attention, {} Mamba-2, {} MoE", a.attention_layer_count(), a.mamba_layers, a.moe_layer_count());
  return text;
}

void print_serving(const Architecture& a, const ServingLoad& load) {
  const ServingMemory memory = serving_memory(a, count_parameters(a), load);
  fmt::print("  at inference {:.2f} GB: weights {:.2f} at {:g} B each", memory.total() / 1e9, memory.weights / 1e9, load.weight_bytes);
  if (load.context > 0) {
    const CacheElements kept = cache_elements(a, load.context);
    fmt::print(", caches {:.2f}\n  caches of {} x {} tokens: {:.0f} elements a sequence at {:g} B", memory.caches / 1e9, load.batch, load.context,
               kept.tokens, load.cache_bytes);
    if (kept.states > 0) fmt::print(", states of {:.0f} elements at {:g} B", kept.states, load.state_bytes);
  }
  fmt::print("\n");
}

void print_one(const Architecture& a, const ServingLoad& load) {
  const ParameterCount n = count_parameters(a);
  const std::int64_t table = a.vocabulary * a.hidden, tables = a.tied ? table : 2 * table;
  fmt::print("{}\n  {}\n  attention: {}\n  FFN:       {}\n", a.name, layers_text(a), attention_text(a), ffn_text(a));
  if (!a.source.empty()) fmt::print("  source:    {}\n", a.source);
  if (!a.left_out.empty()) fmt::print("  left out:  {}\n", a.left_out);
  const auto row = [](const char* what, std::int64_t total, std::int64_t active) {
    fmt::print("  {:<36}{:>22}{:>22}\n", what, grouped(total), grouped(active));
  };
  fmt::print("\n  {:<36}{:>22}{:>22}\n", "parameters", "total", "active per token");
  row("non-embedding (law's counting rule)", n.non_embedding_total, n.non_embedding_active);
  row("all", n.all_total, n.all_active);
  row("all, without input embedding", n.all_total - (tables - table), n.all_active_without_input_embedding);
  row("all, without embedding and head", n.all_total - tables, n.all_active_without_embedding_and_head);
  fmt::print("  sparsity 1 - active/total (non-embedding): {:.5f}\n", n.sparsity());
  if (load.stated()) print_serving(a, load);
}

void print_table(const std::vector<Architecture>& all) {
  constexpr std::size_t kPage = 100;
  const std::vector<std::string> heading{"total (1)", "active (1)", "sparsity", "total (2)", "active (2)", "w/o input (3)"};
  std::vector<std::vector<std::string>> rows{heading};
  std::size_t names = 12;
  for (const auto& a : all) {
    const ParameterCount n = count_parameters(a);
    rows.push_back({grouped(n.non_embedding_total), grouped(n.non_embedding_active), fmt::format("{:.5f}", n.sparsity()), grouped(n.all_total),
                    grouped(n.all_active), grouped(n.all_active_without_input_embedding)});
    names = std::max(names, a.name.size());
  }
  std::vector<std::size_t> width(heading.size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  std::size_t wide = names;
  for (const std::size_t w : width) wide += w + 1;
  const bool beside = wide <= kPage;  // else a name has a line of its own
  fmt::print("Parameters: (1) non-embedding, by the law's counting rule; (2) all; active: per token, with the\n"
             "input embedding; (3) active without it.\n");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string name = i == 0 ? "architecture" : all[i - 1].name;
    std::string line = beside ? fmt::format("{:<{}}", name, names) : name + "\n" + std::string(2, ' ');
    for (std::size_t c = 0; c < heading.size(); ++c) line += fmt::format(" {:>{}}", rows[i][c], width[c]);
    fmt::print("{}\n", line);
  }
  for (const auto& a : all)
    if (!a.left_out.empty()) fmt::print("{}: left out: {}\n", a.name, a.left_out);
}

int run(const Options& options, bool json) {
  std::vector<std::string> specs = options.named;
  specs.insert(specs.end(), options.specs.begin(), options.specs.end());
  if (options.all) {
    const auto names = architecture_names();
    specs.insert(specs.end(), names.begin(), names.end());
  }
  if (specs.empty())
    throw InputError("no architecture is given", "count needs one", "add a name (tessera presets lists them) or --all.");
  const ServingLoad load = change_serving({}, options.serving).load;
  std::vector<Architecture> all;
  for (const auto& spec : specs) all.push_back(read_architecture(spec));
  if (json) {
    Json out = Json::object();
    if (all.size() == 1) {
      out = to_json(all.front(), load);
    } else {
      out["architectures"] = Json::array();
      for (const auto& a : all) out["architectures"].push_back(to_json(a, load));
    }
    // A path may hold bytes that are no UTF-8: replaced, since JSON cannot hold them.
    fmt::print("{}\n", out.dump(2, ' ', false, Json::error_handler_t::replace));
  } else if (all.size() == 1) {
    print_one(all.front(), load);
  } else {
    print_table(all);
    for (const auto& a : all) {
      if (!load.stated()) break;
      fmt::print("{}\n", a.name);
      print_serving(a, load);
    }
  }
  return kDone;
}

}  // namespace

void add_count(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("count", "Exact parameter counts of an architecture");
  sub->add_option("ARCHITECTURE", options->named, "The same as -a; several may be given");
  sub->add_option("-a,--architecture", options->specs,
                  "Preset, .toml file, Hugging Face config.json, ladder:q=12,experts=96,top_k=2,split=4, dense:key=value,..., "
                  "moe:key=value,... or any of these with ,key=value overrides; may be given several times")
      ->allow_extra_args(false);
  add_serving_load(*sub, options->serving);
  sub->add_flag("--all", options->all, "Every built-in architecture");
  sub->add_flag("--json", session.json, "One JSON object on stdout: architecture{} non_embedding{} all{} left_out, in parameters; serving{} in bytes");
  sub->footer("Examples:\n  tessera count mixtral_8x7b\n  tessera count -a ladder:q=12,experts=96,top_k=2,split=4 --json\n"
              "  tessera count -a deepseek_v3 --serving-weights fp8 --serving-context 131072 --serving-batch 16\n"
              "  tessera count -a deepseek_v3 -a deepseek_v3,experts=512\n"
              "  tessera count -a moe:layers=24,hidden=2048,heads=16,kv_heads=4,experts=64,top_k=6,expert_ffn=1024,vocabulary=65536");
  sub->callback([options, &session] { session.action = [options, &session] { return run(*options, session.json); }; });
}

}  // namespace tessera
