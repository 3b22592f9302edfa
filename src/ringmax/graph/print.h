// Prints a graph as a StableHLO module with Shardy annotations: the only place
// that makes program text.
//
// Dead nodes (see dce.h) are left out. Mesh axes of size 1 are not printed; a
// mesh of one device prints no sharding at all and manual computations are
// inlined. Scope paths become MLIR locations, which reach HLO as op_name.
#ifndef RINGMAX_GRAPH_PRINT_H_
#define RINGMAX_GRAPH_PRINT_H_

#include <string>

#include "ringmax/graph/graph.h"

namespace ringmax::graph {

struct PrintOptions {
  bool locations = true;
};

std::string print_stablehlo(const Graph& graph,
                            const PrintOptions& options = {});

}  // namespace ringmax::graph

#endif  // RINGMAX_GRAPH_PRINT_H_
