// The parameters of the Llama family: names, shapes, shardings, initial values.
//
// Layers are stacked: a layer's weight has a leading dimension of the number of
// layers, which the decoder scans over. Shape letters: L layers, E emb_dim, H
// query heads, K kv heads, D head_dim, F mlp_dim, V vocab_size.
#ifndef RINGMAX_MODEL_PARAMETERS_H_
#define RINGMAX_MODEL_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/base/shape.h"
#include "ringmax/graph/graph.h"
#include "ringmax/mesh/mesh.h"
#include "ringmax/model/options.h"

namespace ringmax::model {

struct ParameterInfo {
  std::string name;  // "layers/self_attention/query"
  Shape shape;
  std::vector<std::string_view> logical;  // logical axis names, one per dim
  mesh::PartitionSpec spec;               // how it is kept
  mesh::PartitionSpec gathered;           // how it is used: embed is whole
  // Standard deviation of the initial values; 0: all are init_constant.
  double init_stddev = 0;
  double init_constant = 1;
};

// In a fixed order, which is also that of programs and checkpoints.
std::vector<ParameterInfo> parameters(const ModelOptions& options,
                                      const mesh::Mesh& mesh);

// Index by name; throws kInternal when there is none.
std::size_t parameter_index(const std::vector<ParameterInfo>& infos,
                            std::string_view name);

// Initial values as nodes of the graph: counter-based, so that the bits depend
// on the seed, the parameter and the element's index only, never on the mesh.
graph::Value initial_value(graph::Graph& graph, const ParameterInfo& info,
                           std::size_t index, std::uint64_t seed);

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_PARAMETERS_H_
