#include "ringmax/train/sample.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ringmax/attention/options.h"
#include "ringmax/base/philox.h"
#include "ringmax/base/utf8.h"
#include "ringmax/data/tokenizer.h"
#include "ringmax/graph/control.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/print.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/decoder.h"
#include "ringmax/train/program.h"

namespace ringmax::train {
namespace {

using graph::Value;
using graph::Values;

// Logits [V] after token `last` of a window of tokens [1, W].
void build(graph::Graph& g, const model::ModelOptions& options,
           const std::vector<model::ParameterInfo>& infos,
           std::int64_t window) {
  Values weights;
  for (const auto& info : infos) {
    weights.push_back(g.parameter(info.name, info.shape));
  }
  const Shape row(DType::kI32, {1, window});
  const Value tokens = g.parameter("tokens", row);
  const Value last = g.parameter("last", Shape(DType::kI32, {}));
  const attention::AttentionOptions attention;
  const model::ModelContext context{options, attention, infos};
  const Value hidden =
      model::decoder(context, weights, {tokens, graph::iota(g, row, 1), {}})
          .hidden_BSE;
  const Value one = graph::dynamic_slice_dim(hidden, 1, last, 1);
  const Value logits = graph::einsum(
      "bse,ve->bsv", one, model::output_head(context, weights), DType::kF32);
  g.result("logits", graph::reshape(logits, {options.vocab_size}));
}

// A token from softmax(logits / temperature) over bytes and the end token; the
// likeliest for temperature 0.
std::int32_t pick(const HostArray& logits, double temperature, double uniform) {
  const auto all = logits.data<float>();
  const auto count = std::min<std::size_t>(all.size(), data::kByteVocabSize);
  const auto likeliest = std::max_element(
      all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
  if (temperature == 0) {
    return static_cast<std::int32_t>(likeliest - all.begin());
  }
  const float top = *likeliest;
  std::vector<double> mass(count);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    mass[i] = std::exp((all[i] - top) / temperature);
    sum += mass[i];
  }
  double left = uniform * sum;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    left -= mass[i];
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(count) - 1;
}

}  // namespace

std::string sample_text(const pjrt::Client& client,
                        const pjrt::ExecutableCache& cache,
                        const model::ModelOptions& options,
                        const std::vector<HostArray>& weights,
                        const SampleSettings& settings) {
  const mesh::Mesh mesh = mesh::make_mesh({});
  const auto infos = model::parameters(options, mesh);
  graph::Graph g(mesh, "sample");
  build(g, options, infos, settings.window);
  const Program program(g,
                        cache
                            .load_or_compile(client, graph::print_stablehlo(g),
                                             pjrt::CompileOptions())
                            .executable);
  std::vector<DeviceArray> resident;
  for (const HostArray& w : weights) {
    resident.push_back(upload(client, w, mesh::PartitionSpec(), mesh));
  }
  std::vector<std::int32_t> ids = data::encode_prompt(settings.prompt);
  const std::size_t prompt = ids.size();
  for (std::int64_t n = 0; n < settings.new_tokens; ++n) {
    const auto window = static_cast<std::size_t>(settings.window);
    const std::size_t begin = ids.size() > window ? ids.size() - window : 0;
    HostArray tokens(Shape(DType::kI32, {1, settings.window}));
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end(),
              tokens.data<std::int32_t>().begin());
    const auto last = static_cast<std::int32_t>(ids.size() - begin - 1);
    const DeviceArray token_array =
        upload(client, tokens, mesh::PartitionSpec(), mesh);
    const DeviceArray last_array =
        upload(client,
               HostArray::from<std::int32_t>(
                   {}, std::span<const std::int32_t>(&last, 1)),
               mesh::PartitionSpec(), mesh);
    std::vector<const DeviceArray*> arguments;
    for (const DeviceArray& a : resident) arguments.push_back(&a);
    arguments.push_back(&token_array);
    arguments.push_back(&last_array);
    const HostArray logits = download(program.run(arguments)[0]);
    // 53 random bits make a double in [0, 1).
    const double uniform = std::ldexp(
        static_cast<double>(
            random_bits(settings.seed, 0, static_cast<std::uint64_t>(n)) >> 11),
        -53);
    const std::int32_t id = pick(logits, settings.temperature, uniform);
    if (id >= data::kPadId) break;
    ids.push_back(id);
  }
  // An untrained model writes any byte, a terminal's commands among them.
  return printable(
      data::decode(std::span<const std::int32_t>(ids).subspan(prompt)),
      Unprintable::kReplace);
}

}  // namespace ringmax::train
