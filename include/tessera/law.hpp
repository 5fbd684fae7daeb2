// Scaling laws: predicted loss of an architecture after D training tokens. A law is a form (a formula) with
// coefficients and a convention that says which parameter count is its N and what its S and G mean. Losses are
// mean token cross-entropy in nats per token; losses of two laws are not comparable (other data, other
// tokenizers): rank architectures within one law. Presets and user files: io/law_reader.hpp.
//
//   Law law = read_law("mosaic");
//   LawPoint point = law_point(law, architecture, count_parameters(architecture), 1.4e12);
//   double nats = loss(law, point);
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/architecture.hpp"

namespace tessera {

/// The formulas. Symbols: N total or active parameters (the law's own count), D tokens, S sparsity, G split
/// factor d_ff/d_expert, E experts. Coefficient names and expressions: form_info().
enum class LawForm : std::uint8_t {
  mosaic,               ///< a/N^α + b/D^β + c/(1-S)^λ + j/((1-S)^δ N^γ G^η) + e
  chinchilla,           ///< E + A/N^α + B/D^β
  kaplan,               ///< ((Nc/N)^(αN/αD) + Dc/D)^αD
  clark,                ///< log10 L = a log10 N + b log10 Ê + c log10 N log10 Ê + d; no D axis
  granularity,          ///< c + (g/G^γ + a)/N^α + b/D^β
  joint_moe,            ///< a Ê^δ N^(α+γ ln Ê) + b Ê^ω D^(β+ζ ln Ê) + c
  abnar,                ///< a/N^α + b/D^β + c/(1-S)^λ + d/((1-S)^δ N^γ) + e
  zhao,                 ///< (eG + f/G + mS² + nS)(1/N^α + k/Na^α + h Na/N) + a/N^α + b/D^β + c/Na^α + ε
  efficiency_leverage,  ///< a compute multiplier, not a loss: see efficiency_leverage()
  frantar,              ///< (aS(1-S)^bS + cS)/N^bN + (aD/D)^bD + c, weight sparsity
};

/// An axis of the formulas and of fitted ranges. tokens_per_active is D/N_act, experts_per_split E/G.
enum class LawAxis : std::uint8_t { total, active, sparsity, tokens, split, experts, active_experts,
                                    tokens_per_active, experts_per_split, count_ };
std::string_view to_string(LawAxis);
std::optional<LawAxis> law_axis_from(std::string_view);

/// What a coefficient is: decides how a fitter parametrises it (amplitudes and exponents are positive and live
/// in logs; `free` ones may have any sign).
enum class CoefficientKind : std::uint8_t { amplitude, exponent, constant, free };

struct CoefficientInfo {
  std::string_view name;  ///< key in preset files and JSON
  CoefficientKind kind;
  std::string_view term;  ///< name of the term it belongs to
};

struct FormInfo {
  LawForm form;
  std::string_view name;        ///< key in preset files
  std::string_view expression;
  std::span<const CoefficientInfo> coefficients;  ///< in the order of Law::coefficients
  std::span<const LawAxis> axes;  ///< what the formula depends on; `total` stands for the law's N
  bool has_data_axis;           ///< the loss depends on D
};

const FormInfo& form_info(LawForm);
std::optional<LawForm> law_form_from(std::string_view name);
std::span<const FormInfo> all_forms();

/// Which parameter count a law calls N, and what it calls sparsity.
enum class SizeKind : std::uint8_t { total, active };
enum class SparsityKind : std::uint8_t {
  parameters,  ///< 1 - N_act/N_tot of the counts in use
  experts,     ///< inactive / all experts of a MoE layer, shared ones included
  shared,      ///< shared / activated experts (Zhao)
  weights      ///< pruned weights; no meaning for experts
};

struct LawConvention {
  SizeKind size = SizeKind::total;
  bool embedding = false;  ///< N includes embedding and output head
  bool router = false;     ///< N includes router weights (hidden · experts per MoE layer); implied by embedding
  SparsityKind sparsity = SparsityKind::parameters;
  double split_width = 0;  ///< G = split_width * hidden / expert width; 0: the architecture's own split factor
};

struct LawRange {
  LawAxis axis;
  double low, high;
};

/// 95 % interval as published or fitted.
struct LawInterval {
  double low, high;
};

/// Gaussian of an ensemble of the mosaic form in level/slope coordinates (model/uncertainty.cpp): where a
/// covariance of the printed coefficients fails, this one reproduces the spread of predictions.
struct LevelSlope {
  double total, sparsity, tokens, split;  ///< reference point
  std::array<double, 66> cholesky;        ///< lower triangle, row by row, of the 11 coordinates
};

/// A point of a law's domain, in the law's own convention. Counts are raw (not billions). Ranges ignore fields
/// that are 0 (unknown), except the sparsity.
struct LawPoint {
  double total = 0;           ///< N_tot
  double active = 0;          ///< N_act
  double tokens = 0;          ///< D
  double sparsity = 0;        ///< S
  double split = 1;           ///< G = dense-equivalent FFN width / expert width
  double experts = 1;         ///< routed experts of a MoE layer; 1: dense
  double active_experts = 1;  ///< experts a token meets (routed, and shared where the convention counts them)
  double activation = 1;      ///< (active + shared) / (all + shared) experts
  double width_ratio = 0.5;   ///< 2 · hidden / expert width (granularity of the efficiency-leverage law)
};

struct Law {
  std::string name;      ///< preset name, file or text it was read from
  std::string title, source, evidence, note;
  LawForm form = LawForm::chinchilla;
  std::vector<double> coefficients;  ///< order of form_info(form).coefficients
  LawConvention convention;
  std::vector<LawRange> ranges;
  std::vector<std::optional<LawInterval>> intervals;  ///< empty, or one per coefficient
  std::vector<std::string> identified;  ///< coefficients the data pin down; the rest lie on a ridge (empty: unknown)
  double fixed_tokens = 0;              ///< laws without a D axis: the D all runs had; 0: has a D axis
  double noise_sd = 0;                  ///< scatter of one run around the law [nats]; 0: unknown
  double form_sd = 0;                   ///< misfit of the form itself [nats]; 0: unknown
  bool synthetic_uncertainty = false;   ///< ensemble from a reconstruction, not from the authors' runs
  bool dense_only = false;              ///< fitted on dense models only
  std::optional<LevelSlope> level_slope;
  std::vector<std::vector<double>> members;  ///< bootstrap members, each in the order of `coefficients`

  /// Value of a coefficient by name. Throws InputError for an unknown name.
  double coefficient(std::string_view name) const;
};

/// Throws InputError naming the first fault: wrong number of coefficients, NaN, a range with low > high, ...
void check(const Law&);

/// Is `law` a loss (and not a multiplier of compute)?
inline bool predicts_loss(const Law& law) { return law.form != LawForm::efficiency_leverage; }

/// Predicted loss [nats/token]. Hot path, no allocation, never NaN: +infinity where the formula has no value
/// (non-positive N or D, S outside [0, 1), G <= 0, E < 1) and for forms that do not predict a loss.
double loss(const Law&, const LawPoint&);
/// The same with other coefficients of the same form (ensemble members). The point must be a formula_point().
double loss(LawForm, std::span<const double> coefficients, const LawPoint&);
/// The point with `total` set to what the formula calls N (active parameters for laws of SizeKind::active).
LawPoint formula_point(const Law&, const LawPoint&);

struct LawTerm {
  std::string name;  ///< "size", "data", "sparsity", "split", "constant", ...
  double value;      ///< [nats/token]
};
/// Terms that sum to loss(). Laws that are not sums (Kaplan, Clark) split their loss in proportion to the parts
/// inside the power, or give one term. Empty where loss() is infinite.
std::vector<LawTerm> loss_terms(const Law&, const LawPoint&);

/// L(D) = floor + amplitude · D^-exponent of the laws whose data term stands alone (all but Kaplan; Clark has
/// amplitude 0): what a search and an ensemble use, since all but the tokens is fixed for an architecture.
/// point.tokens is ignored, the point must be a formula_point(). nullopt for Kaplan and for points without a value.
struct DataTerm {
  double floor, amplitude, exponent;
};
std::optional<DataTerm> data_term(LawForm, std::span<const double> coefficients, const LawPoint&);

/// Compute multiplier C_dense/C_moe at equal loss of the efficiency-leverage form (Ling team 2025):
/// Â^(a + d log10 C + γ (log2 G)² + β log2 G) with A = point.activation, G = point.width_ratio and training
/// compute `flops` [FLOP]. Infinity where it has no value.
double efficiency_leverage(const Law&, const LawPoint&, double flops);

/// The point of `architecture` after `tokens` in the law's convention. Dense models have experts = 1, S = 0,
/// split 1 (the mosaic split term then uses G = 1).
LawPoint law_point(const Law&, const Architecture&, const ParameterCount&, double tokens);

/// Where the point leaves the range of the runs the law was fitted on.
struct Outside {
  LawAxis axis;
  double value, low, high;
};
std::vector<Outside> outside(const Law&, const LawPoint&);
/// The same as sentences ("tokens 1.42e+12 is 25.1 times the largest run, 5.64e+10"), plus what the law cannot
/// know about this point (dense law on a sparse model, no D axis, ...).
std::vector<std::string> outside_range(const Law&, const LawPoint&);

/// Point of lowest loss at `flops` = 6 N_act D with N_tot free and S, G, E as in `shape` (N_act = (1-S) N_tot).
/// Golden section in log N; throws InputError for laws without a D axis and where flops is not positive.
LawPoint optimum_at_flops(const Law&, const LawPoint& shape, double flops);

}  // namespace tessera
