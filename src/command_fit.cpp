// tessera fit: a law from a table of runs.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "io/fit.hpp"
#include "io/law_reader.hpp"
#include "io/output_file.hpp"
#include "io/toml_reader.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string runs, form, out, bootstrap = "wild", prior, size;
  std::vector<std::string> terms, fixed, columns;
  bool embedding = false;
  std::size_t members = 512;
  RunSelection selection;
  FitOptions fit;
};

constexpr std::pair<const char*, Bootstrap> kBootstraps[] = {{"none", Bootstrap::none}, {"wild", Bootstrap::wild}, {"pairs", Bootstrap::pairs}, {"stratum", Bootstrap::stratum}, {"cluster", Bootstrap::cluster}};

std::pair<std::string, std::string> assignment(const std::string& text, const std::string& option, const std::string& what) {
  const auto at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) throw InputError(fmt::format("{} '{}'", option, text), fmt::format("{} is needed", what), "correct it.");
  return {text.substr(0, at), text.substr(at + 1)};
}

double number_of(const std::string& text, const std::string& option) {
  std::size_t used = 0;
  double value = NAN;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
  }
  if (used != text.size() || !std::isfinite(value)) throw InputError(fmt::format("{}: '{}' is not a number", option, text), "a coefficient is one", "correct it.");
  return value;
}

LawForm form_of(const std::string& name) {
  if (const auto form = law_form_from(name)) return *form;
  std::vector<std::string> names;
  for (const auto& info : all_forms()) names.emplace_back(info.name);
  throw InputError(fmt::format("'{}' is no form", name), fmt::format("known are {}", fmt::join(names, ", ")), suggestion(name, names));
}

/// Options of the fit from the words of the command line.
FitOptions fit_options(Options& o) {
  FitOptions fit = o.fit;
  fit.form = form_of(o.form);
  fit.terms = o.terms;
  for (const auto& text : o.fixed) {
    const auto [name, value] = assignment(text, "--fix", "COEFFICIENT=NUMBER");
    fit.fixed[name] = number_of(value, "--fix");
  }
  for (const auto& text : o.columns) {
    const auto [quantity, column] = assignment(text, "--column", "QUANTITY=COLUMN");
    o.selection.columns[quantity] = column;
  }
  const auto kind = std::find_if(std::begin(kBootstraps), std::end(kBootstraps), [&](const auto& b) { return o.bootstrap == b.first; });
  if (kind == std::end(kBootstraps)) throw InputError(fmt::format("'{}' is no bootstrap", o.bootstrap), "known are none, wild, pairs, stratum, cluster", suggestion(o.bootstrap, {"none", "wild", "pairs", "stratum", "cluster"}));
  fit.bootstrap = kind->second;
  const bool grouped = fit.bootstrap == Bootstrap::stratum || fit.bootstrap == Bootstrap::cluster || fit.held_out_by_group;
  if (grouped && o.selection.group_by.empty()) throw InputError("--by is missing", "strata, clusters and groups of held-out runs are named by columns", "give for example --by G.");
  if (!grouped && !o.selection.group_by.empty()) throw InputError("--by without a use", "only --bootstrap stratum, --bootstrap cluster and --held-out-by-group need groups", "leave it out.");
  if (!(fit.huber >= 0) || !std::isfinite(fit.huber)) throw InputError(fmt::format("--huber {:g}", fit.huber), "it is a threshold on the log loss, 0 for plain squares", "give zero or more.");
  if (!(fit.held_out >= 0 && fit.held_out < 1)) throw InputError(fmt::format("--held-out {:g}", fit.held_out), "it is a share of the runs", "give 0 <= share < 1.");
  if (fit.starts == 0) throw InputError("--starts 0", "a fit starts somewhere", "give a positive number.");
  if (!(o.selection.fixed_tokens >= 0)) throw InputError(fmt::format("--tokens {:g}", o.selection.fixed_tokens), "tokens are a positive number", "correct it.");
  const bool active = fit.form == LawForm::clark || fit.form == LawForm::joint_moe;
  if (o.size != "" && o.size != "total" && o.size != "active") throw InputError(fmt::format("--size {}", o.size), "N is total or active parameters", suggestion(o.size, {"total", "active"}));
  if (o.size != "" && (active || fit.form == LawForm::zhao)) throw InputError("--size is of no use with this form", "its formula says which count it takes", "leave it out.");
  fit.convention.size = active || o.size == "active" ? SizeKind::active : SizeKind::total;
  fit.convention.embedding = o.embedding;
  if (fit.form == LawForm::zhao) fit.convention.sparsity = SparsityKind::shared;
  if (fit.form == LawForm::abnar) fit.convention.sparsity = SparsityKind::experts;
  if (fit.form == LawForm::frantar) fit.convention.sparsity = SparsityKind::weights;
  if (!o.prior.empty()) {
    const Law prior = read_law(o.prior);
    if (prior.form != fit.form) throw InputError(fmt::format("prior '{}' is of form {}", o.prior, form_info(prior.form).name), fmt::format("the fit is of form {}", o.form), "choose a law of the same form.");
    if (!(fit.prior_sd > 0)) throw InputError(fmt::format("--prior-sd {:g}", fit.prior_sd), "a width is positive", "correct it.");
    fit.prior = prior.coefficients;
  }
  return fit;
}

/// Derived: exponents of the compute-optimal size and tokens of the two-term laws.
std::optional<std::pair<double, double>> allocation(const FitResult& r) {
  if (r.space.form != LawForm::chinchilla && r.space.form != LawForm::granularity) return std::nullopt;
  Law law;
  law.form = r.space.form;
  law.coefficients = r.coefficients;
  const auto exponent = [&](const std::vector<double>& c) {
    law.coefficients = c;
    const double alpha = law.coefficient("alpha"), beta = law.coefficient("beta");
    return alpha + beta > 0 ? beta / (alpha + beta) : 0.0;
  };
  const double value = exponent(r.coefficients);
  double mean = 0, square = 0;
  for (const auto& m : r.members) mean += exponent(m) / static_cast<double>(r.members.size());
  for (const auto& m : r.members) square += (exponent(m) - mean) * (exponent(m) - mean);
  return std::pair{value, r.members.size() > 1 ? std::sqrt(square / static_cast<double>(r.members.size() - 1)) : 0.0};
}

Json identified_json(const FitResult& r) {
  const auto infos = form_info(r.space.form).coefficients;
  Json out;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    if (!r.identified[i]) continue;
    const auto& id = *r.identified[i];
    out["coefficients"][std::string(infos[i].name)] = {{"relative_sd", id.sd}, {"trades_off_with", id.partner}, {"correlation", id.correlation}, {"ridge", id.ridge}};
  }
  out["directions"] = Json::array();
  for (const auto& [sd, loadings] : r.directions) {
    Json row{{"sd", sd}, {"loadings", Json::object()}};
    for (std::size_t k = 0; k < loadings.size(); ++k) row["loadings"][std::string(infos[r.space.free[k]].name)] = loadings[k];
    out["directions"].push_back(row);
  }
  return out;
}

/// What makes a fit worthless although it has numbers.
std::vector<std::string> warnings_of(const FitResult& r, const RunTable& t, const FitOptions& fit) {
  constexpr double kConverged = 1e-3;  // relative gradient; fits that end at an optimum have 1e-6 and less
  std::vector<std::string> out;
  if (r.gradient > kConverged) out.push_back(fmt::format("no start reached an optimum (relative gradient {:.2g}): the numbers are where the solver stopped. Give more --starts, fewer --terms, or a --prior", r.gradient));
  if (!fit.terms.empty()) return out;  // a subset of terms may have left the axis out
  const Law law = fitted_law(r, t, fit, 0);
  for (LawAxis axis : form_info(fit.form).axes) {
    if (axis == LawAxis::total && fit.convention.size == SizeKind::active) axis = LawAxis::active;
    for (const LawRange& range : law.ranges)
      if (range.axis == axis && range.low == range.high)
        out.push_back(fmt::format("{} is {:.6g} in every run: what it does cannot be told from the constant. {}", to_string(axis), range.low,
                                  axis == LawAxis::total ? "Give --size active, or leave its term out with --terms" : "Leave its term out with --terms"));
  }
  return out;
}

Json to_json(const FitResult& r, const RunTable& t, const Options& o, const FitOptions& fit) {
  const auto infos = form_info(r.space.form).coefficients;
  Json out{{"form", o.form}, {"expression", form_info(r.space.form).expression}, {"runs", t.runs.size()}};
  out["rows"] = {{"read", t.rows}, {"filtered", t.filtered}, {"without_loss", t.blank}, {"dropped_highest", t.dropped}};
  out["columns"] = t.columns;
  out["huber"] = fit.huber;
  out["coefficients"] = out["intervals"] = Json::object();
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const std::string name(infos[i].name);
    out["coefficients"][name] = r.coefficients[i];
    if (r.intervals[i]) {
      const auto& v = *r.intervals[i];
      out["intervals"][name] = {{"low", v.low}, {"high", v.high}, {"se", v.se}, {"percentile_low", v.percentile_low}, {"percentile_high", v.percentile_high}};
    }
  }
  out["bootstrap"] = {{"kind", o.bootstrap}, {"resamples", r.members.size()}, {"failed", r.resamples_failed}, {"interval", "95 % BCa"}};
  out["objective"] = r.objective;
  out["relative_gradient"] = r.gradient;
  out["train"] = {{"rmse", r.rmse}, {"rmse_log", r.rmse_log}, {"r2", r.r2}};
  out["held_out"] = Json::object();
  if (r.held_out_rmse) out["held_out"] = {{"rmse", *r.held_out_rmse}, {"bias", *r.held_out_bias}, {"runs", r.held_out_runs}, {"from_size", r.held_out_from}};
  out["starts"] = {{"drawn", fit.starts}, {"valid", r.starts}, {"at_optimum", r.starts_at_optimum}};
  out["identifiability"] = identified_json(r);
  out["warnings"] = warnings_of(r, t, fit);
  if (const auto a = allocation(r)) out["optimal_size_exponent"] = {{"value", a->first}, {"se", a->second}};
  if (!o.out.empty()) out["law_file"] = o.out;
  return out;
}

void print(const FitResult& r, const RunTable& t, const Options& o, const FitOptions& fit) {
  const auto infos = form_info(r.space.form).coefficients;
  fmt::print("{}: {} of {} rows ({} filtered out, {} without a loss, {} of highest loss dropped)\n", t.file, t.runs.size(), t.rows, t.filtered, t.blank, t.dropped);
  for (const auto& [quantity, column] : t.columns) fmt::print("  {:<16} {}\n", quantity, column);
  fmt::print("\n{}\n  {:<8} {:>16} {:>28} {:>12} {:>11}  {}\n", form_info(r.space.form).expression, "", "value", "95 % BCa", "se", "relative sd", "identified");
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const auto& v = r.intervals[i];
    const std::string interval = v ? fmt::format("{:.6g} to {:.6g}", v->low, v->high) : "-", se = v ? fmt::format("{:.4g}", v->se) : "-";
    if (!r.identified[i]) {
      fmt::print("  {:<8} {:>16.8g} {:>28} {:>12} {:>11}  {}\n", infos[i].name, r.coefficients[i], "-", "-", "-",
                 fit.fixed.count(std::string(infos[i].name)) ? "fixed" : "left out");
      continue;
    }
    const auto& id = *r.identified[i];
    fmt::print("  {:<8} {:>16.8g} {:>28} {:>12} {:>11.3g}  {}\n", infos[i].name, r.coefficients[i], interval, se, id.sd,
               !id.ridge             ? "yes"
               : id.partner.empty() ? "no: the runs say nothing of it"
                                    : fmt::format("on a ridge with {} (correlation {:.2f})", id.partner, id.correlation));
  }
  fmt::print("\nobjective {:.10g} (sum of Huber {:g} on log loss), relative gradient {:.2g}; {} of {} starts end there\n", r.objective, fit.huber, r.gradient, r.starts_at_optimum, r.starts);
  fmt::print("fitted runs: RMSE {:.5f} nats, of the log {:.5f}, R2 {:.5f}\n", r.rmse, r.rmse_log, r.r2);
  if (r.held_out_rmse) fmt::print("held out, {} runs from size {:.4g}: RMSE {:.5f} nats, mean error {:+.5f} nats\n", r.held_out_runs, r.held_out_from, *r.held_out_rmse, *r.held_out_bias);
  if (const auto a = allocation(r)) fmt::print("compute-optimal N grows as C^{:.4f} (se {:.4f})\n", a->first, a->second);
  if (!r.members.empty()) fmt::print("{} resamples ({}), {} failed\n", r.members.size(), o.bootstrap, r.resamples_failed);
  for (const auto& text : warnings_of(r, t, fit)) fmt::print("warning: {}\n", text);
  if (!o.out.empty()) fmt::print("law written to {}: use it as --law {}\n", o.out, o.out);
}

int run(Options& o, bool json) {
  std::optional<OutputFile> out;
  if (!o.out.empty()) out.emplace("--out", o.out);
  const FitOptions fit = fit_options(o);
  Law law;
  law.form = fit.form, law.convention = fit.convention;
  const RunTable table = read_runs(o.runs, law, o.selection);
  const FitResult result = fit_law(table, fit);
  if (out) out->write(law_to_toml(fitted_law(result, table, fit, o.members)));
  if (json)
    fmt::print("{}\n", to_json(result, table, o, fit).dump(2));
  else
    print(result, table, o, fit);
  return kDone;
}

}  // namespace

void add_fit(CLI::App& app, Session& session) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("fit", "A law from a table of runs, with intervals and held-out error");
  sub->add_option("RUNS", o->runs, "Table of runs: CSV with a header, or .jsonl")->required();
  sub->add_option("--form", o->form, "Formula: mosaic chinchilla kaplan clark granularity joint_moe abnar zhao frantar")->required();
  sub->add_option("-o,--out", o->out, "Law file to write (TOML, with up to --members resamples as its ensemble)");
  sub->add_option("--terms", o->terms, "Terms kept (default: all), e.g. size,data,constant")->delimiter(',');
  sub->add_option("--fix", o->fixed, "Coefficient that keeps a value, e.g. alpha=0.34; may be given several times");
  sub->add_option("--size", o->size, "N of the formula: total or active parameters (default: total; clark, joint_moe: active)");
  sub->add_flag("--embedding", o->embedding, "Counts of the table include embeddings (kept in the law file)");
  sub->add_option("--column", o->columns, "QUANTITY=COLUMN where names differ: total active tokens flops sparsity split experts active_experts loss");
  sub->add_option("--tokens", o->selection.fixed_tokens, "Tokens of every run where the table has no such column");
  sub->add_option("--where", o->selection.where, "Rows taken: COLUMN=VALUE|VALUE, COLUMN!=VALUE, COLUMN<NUMBER; may be given several times");
  sub->add_option("--drop-highest", o->selection.drop_highest, "Leave out this many rows of highest loss")->capture_default_str();
  sub->add_option("--huber", o->fit.huber, "Threshold of the Huber loss on log loss; 0: plain least squares")->capture_default_str();
  sub->add_option("--starts", o->fit.starts, "Starting points")->capture_default_str();
  sub->add_option("--bootstrap", o->bootstrap, "none, wild, pairs, stratum or cluster")->capture_default_str();
  sub->add_option("--resamples", o->fit.resamples, "Resamples")->capture_default_str();
  sub->add_option("--by", o->selection.group_by, "Columns that name strata or clusters")->delimiter(',');
  sub->add_option("--prior", o->prior, "Law on whose coefficients a Gaussian prior is centred");
  sub->add_option("--prior-sd", o->fit.prior_sd, "Its width in logs of the coefficients")->capture_default_str();
  sub->add_option("--held-out", o->fit.held_out, "Share of the largest runs held out for the error; 0: none")->capture_default_str();
  sub->add_flag("--held-out-by-group", o->fit.held_out_by_group, "That share of each group of --by");
  sub->add_option("--members", o->members, "Most resamples kept in the law file")->capture_default_str();
  sub->add_option("--seed", o->fit.seed, "Seed of starts and resamples")->capture_default_str();
  sub->add_flag("--json", session.json, "One JSON object on stdout: coefficients{} intervals{} objective held_out{rmse} train{} identifiability{} warnings[]; losses in nats per token");
  sub->footer("Examples:\n  tessera fit runs.csv --form chinchilla --drop-highest 5 --bootstrap pairs --resamples 4000 -o mine.toml\n"
              "  tessera fit final_runs.csv --form clark --huber 0 --where 'router_type=S-Base|Dense' --where k=1 --where seed=42 "
              "--where routing_frequency=0.5\n"
              "  tessera fit runs.csv --form mosaic --huber 0.1 --prior mosaic --bootstrap cluster --by rung,G");
  sub->callback([o, &session] { session.action = [o, &session] { return run(*o, session.json); }; });
}

}  // namespace tessera
