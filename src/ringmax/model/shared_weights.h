// Products of a layer with weights that virtual CPU devices own in parts, each
// multiplied from where its parts lie (model/cpu/ffi.h) instead of gathered by
// every device: they are all in one process. Gradients too: each device makes
// those of its own part from everyone's tokens.
//
// Not for several processes, nor for other platforms: there XLA gathers.
#ifndef RINGMAX_MODEL_SHARED_WEIGHTS_H_
#define RINGMAX_MODEL_SHARED_WEIGHTS_H_

#include <optional>
#include <string>
#include <vector>

#include "ringmax/graph/graph.h"
#include "ringmax/mesh/mesh.h"
#include "ringmax/model/decoder.h"

namespace ringmax::model {

// The mesh axis along which they are shared out: that of all devices, which
// must cut both the columns E of weights and the tokens, in float32, with FFI
// kernels. None where weights are gathered as everywhere.
std::optional<std::string> sharing_axis(const ModelContext& context,
                                        const mesh::Mesh& mesh);

// Tickets of one matrix, or of several that are multiplied together: s64
// [devices] for each of two orders. Invalid: every product shares them anew.
struct Tickets {
  graph::Value to_features, from_features;
  bool valid() const { return to_features.valid(); }
};
// Those of stacks of matrices, s64 [devices, N].
struct StackTickets {
  graph::Value to_features, from_features;
  // Of matrix `i`, an int32 scalar; invalid where these are.
  Tickets at(graph::Value i) const;
};

// Weights that are shared once for a whole step: what devices pack, and the
// meetings in which they wait for each other, are a product's own otherwise.
// They are there twice, in each order, until they are released. For programs
// that keep everything anyway.
class KeptWeights {
 public:
  // Stacks [N, Fi, E] as they are kept, those of a group multiplied together.
  KeptWeights(const std::vector<std::vector<graph::Value>>& groups,
              const std::string& axis);
  const StackTickets& group(std::size_t i) const { return groups_[i]; }
  // The scalar `x`, which comes of everything that reads them.
  graph::Value release(graph::Value x) const;

 private:
  std::string axis_;
  graph::Value all_;  // tickets as they came
  std::vector<StackTickets> groups_;
};

// x [B, S, E] times the transpose of weights [Fi, E], kept in the weights'
// dtype: [B, S, Fi] each.
std::vector<graph::Value> to_features(
    graph::Value x_BSE, const std::vector<graph::Value>& weights_FE,
    const std::string& axis, const Tickets& tickets = {});
// The same without a gradient, and the gradients of x and of each weight from
// those of the results: for those who write their own.
std::vector<graph::Value> shared_features(
    graph::Value x_BSE, const std::vector<graph::Value>& weights_FE,
    const std::string& axis, const Tickets& tickets = {});
std::vector<graph::Value> shared_feature_gradients(
    graph::Value x_BSE, const std::vector<graph::Value>& weights_FE,
    const std::vector<graph::Value>& dy_BSF, const std::string& axis,
    const Tickets& tickets = {});
// y [B, S, F] times a weight [F, E]: [B, S, E].
graph::Value from_features(graph::Value y_BSF, graph::Value weight_FE,
                           const std::string& axis,
                           const Tickets& tickets = {});

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_SHARED_WEIGHTS_H_
