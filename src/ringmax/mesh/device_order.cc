#include "ringmax/mesh/device_order.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#include "ringmax/base/error.h"

namespace ringmax::mesh {
namespace {

using Cell = std::array<std::int64_t, 3>;

// All cells of a box in boustrophedon order: neighbours follow each other.
// The dimension order says which one is walked fastest.
std::vector<Cell> snake(const Cell& dims,
                        const std::array<std::size_t, 3>& by) {
  std::vector<Cell> cells;
  for (std::int64_t z = 0; z < dims[by[2]]; ++z) {
    for (std::int64_t y = 0; y < dims[by[1]]; ++y) {
      const std::int64_t row = z * dims[by[1]] + y;
      for (std::int64_t x = 0; x < dims[by[0]]; ++x) {
        Cell cell;
        cell[by[2]] = z;
        cell[by[1]] = z % 2 == 0 ? y : dims[by[1]] - 1 - y;
        cell[by[0]] = row % 2 == 0 ? x : dims[by[0]] - 1 - x;
        cells.push_back(cell);
      }
    }
  }
  return cells;
}

// A cycle through a box with an even number of cells, of which at least two
// dimensions are longer than 1: keep one line of cells free as the way home,
// and walk the rest as a snake that ends where the line begins. `length` is a
// dimension of even size, `width` one of size at least 2; the third dimension
// is folded into width by a snake.
std::vector<Cell> cycle(const Cell& dims, std::size_t length,
                        std::size_t width) {
  const std::size_t depth = 3 - length - width;
  // The plane across `length`, as one path of neighbours.
  Cell across = dims;
  across[length] = 1;
  const std::vector<Cell> line = snake(across, {width, depth, length});
  std::vector<Cell> cells;
  const std::size_t last = line.size() - 1;
  for (std::int64_t x = 0; x < dims[length]; ++x) {
    for (std::size_t n = 1; n <= last; ++n) {
      Cell cell = line[x % 2 == 0 ? n : last + 1 - n];
      cell[length] = x;
      cells.push_back(cell);
    }
  }
  for (std::int64_t x = dims[length]; x-- > 0;) {
    Cell cell = line[0];
    cell[length] = x;
    cells.push_back(cell);
  }
  return cells;
}

std::int64_t links(const Cell& a, const Cell& b, const Cell& dims,
                   const std::array<bool, 3>& wrap) {
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t apart = std::abs(a[d] - b[d]);
    sum += wrap[d] ? std::min(apart, dims[d] - apart) : apart;
  }
  return sum;
}

struct Walk {
  std::vector<Cell> cells;
  std::int64_t longest = 0;  // links of the longest hop, home included
};

// The best walk through a box. `wrap` holds for dimensions the box spans.
Walk best_walk(const Cell& dims, const std::array<bool, 3>& wrap) {
  constexpr std::array<std::array<std::size_t, 3>, 6> kOrders = {
      {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
  Walk best;
  const auto consider = [&](std::vector<Cell> cells) {
    std::int64_t longest = 0;
    for (std::size_t n = 0; n < cells.size(); ++n) {
      longest = std::max(
          longest, links(cells[n], cells[(n + 1) % cells.size()], dims, wrap));
    }
    if (best.cells.empty() || longest < best.longest) {
      best = {std::move(cells), longest};
    }
  };
  for (const auto& by : kOrders) {
    if (dims[by[0]] % 2 == 0 && dims[by[1]] > 1) {
      consider(cycle(dims, by[0], by[1]));
    }
  }
  for (const auto& by : kOrders) consider(snake(dims, by));
  if (best.longest <= 1) return best;
  // A row without the link home, or only odd dims: going out over every second
  // cell of a path of neighbours and back over the others makes every hop at
  // most 2, where the way home from the path's end would be long.
  std::vector<Cell> folded;
  const std::size_t count = best.cells.size();
  for (std::size_t n = 0; n < count; n += 2) folded.push_back(best.cells[n]);
  for (std::size_t n = count - count % 2; n-- > 0;) {
    if (n % 2 == 1) folded.push_back(best.cells[n]);
  }
  consider(std::move(folded));
  return best;
}

struct Cut {
  Cell box = {1, 1, 1};
  Walk walk;
};

// The box of `chips` chips that divides the topology and has the best walk;
// the most cubic one among equals. None when no box has that many.
Cut best_box(const hw::Topology& topology, std::int64_t chips) {
  Cut best;
  for (std::int64_t x = 1; x <= topology.dims[0]; ++x) {
    if (topology.dims[0] % x != 0 || chips % x != 0) continue;
    for (std::int64_t y = 1; y <= topology.dims[1]; ++y) {
      if (topology.dims[1] % y != 0 || chips / x % y != 0) continue;
      const std::int64_t z = chips / x / y;
      if (z > topology.dims[2] || topology.dims[2] % z != 0) continue;
      const Cell box = {x, y, z};
      std::array<bool, 3> wrap;
      for (std::size_t d = 0; d < 3; ++d) {
        wrap[d] = topology.wrap[d] && box[d] == topology.dims[d];
      }
      Walk walk = best_walk(box, wrap);
      if (best.walk.cells.empty() || walk.longest < best.walk.longest ||
          (walk.longest == best.walk.longest &&
           x + y + z < best.box[0] + best.box[1] + best.box[2])) {
        best = {box, std::move(walk)};
      }
    }
  }
  return best;
}

int device_id(const hw::Topology& topology, const Cell& cell,
              std::int64_t core) {
  const std::int64_t chip =
      cell[0] + topology.dims[0] * (cell[1] + topology.dims[1] * cell[2]);
  return static_cast<int>(chip * topology.devices_per_chip + core);
}

// The devices of a chip: inner axes take them first, as links within a chip
// are the fastest; what is left of them follows each other in the ring.
// Returns all ids as walk of (group, inner, ring), or nothing when the ring
// does not fit in boxes.
std::vector<int> boxed(const hw::Topology& topology, std::int64_t ring,
                       std::int64_t inner) {
  const std::int64_t cores = topology.devices_per_chip;
  const std::int64_t cores_inner = std::gcd(cores, inner);
  const std::int64_t cores_ring = std::gcd(cores / cores_inner, ring);
  if (cores_inner * cores_ring != cores) return {};
  const std::int64_t ring_chips = ring / cores_ring;
  const Cut cut = best_box(topology, ring_chips);
  if (cut.walk.cells.empty()) return {};
  Cell boxes;
  for (std::size_t d = 0; d < 3; ++d) boxes[d] = topology.dims[d] / cut.box[d];
  // Boxes one after the other by a snake; the inner axes take neighbouring
  // boxes, the outer ones what is left.
  std::vector<std::vector<int>> rings;
  for (const Cell& corner : snake(boxes, {0, 1, 2})) {
    for (std::int64_t i = 0; i < cores_inner; ++i) {
      std::vector<int> ids;
      for (const Cell& step : cut.walk.cells) {
        Cell cell;
        for (std::size_t d = 0; d < 3; ++d) {
          cell[d] = corner[d] * cut.box[d] + step[d];
        }
        for (std::int64_t r = 0; r < cores_ring; ++r) {
          ids.push_back(device_id(topology, cell, i * cores_ring + r));
        }
      }
      rings.push_back(std::move(ids));
    }
  }
  std::vector<int> all;
  for (const auto& ids : rings) all.insert(all.end(), ids.begin(), ids.end());
  return all;
}

}  // namespace

std::vector<int> device_order(const hw::Topology& topology, const Mesh& mesh,
                              std::string_view ring_axis) {
  const std::int64_t count = mesh.device_count();
  if (count != topology.devices()) {
    fail_invalid("the mesh ({}) has {} devices, the topology {}",
                 mesh.to_string(), count, topology.devices());
  }
  const std::int64_t ring = mesh.size(ring_axis);
  // Devices of axes after the ring's: they stay within a group.
  std::int64_t inner = 1;
  bool after = false;
  for (const MeshAxis& axis : mesh.axes()) {
    if (after) inner *= axis.size;
    if (axis.name == ring_axis) after = true;
  }
  std::vector<int> walk = boxed(topology, ring, inner);
  if (walk.empty()) {
    // No box of that size: one walk through the whole machine, cut in pieces.
    const Walk whole = best_walk(topology.dims, topology.wrap);
    for (const Cell& cell : whole.cells) {
      for (std::int64_t c = 0; c < topology.devices_per_chip; ++c) {
        walk.push_back(device_id(topology, cell, c));
      }
    }
  }
  // From (outer, inner, ring) to the mesh's (outer, ring, inner).
  std::vector<int> order(static_cast<std::size_t>(count));
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t r = n % ring;
    const std::int64_t i = n / ring % inner;
    const std::int64_t outer = n / (ring * inner);
    order[static_cast<std::size_t>((outer * ring + r) * inner + i)] =
        walk[static_cast<std::size_t>(n)];
  }
  return order;
}

RingHops ring_hops(const hw::Topology& topology, const Mesh& mesh,
                   const std::vector<int>& order, std::string_view ring_axis) {
  RingHops hops;
  const std::int64_t ring = mesh.size(ring_axis);
  if (ring <= 1) return hops;
  std::int64_t stride = 1;
  for (std::size_t a = mesh.axes().size(); a-- > 0;) {
    if (mesh.axes()[a].name == ring_axis) break;
    stride *= mesh.axes()[a].size;
  }
  std::int64_t total = 0;
  for (std::int64_t n = 0; n < mesh.device_count(); ++n) {
    const std::int64_t at = mesh.coordinate(n, ring_axis);
    const std::int64_t next = n + (at + 1 == ring ? 1 - ring : 1) * stride;
    const std::int64_t distance =
        topology.distance(order[static_cast<std::size_t>(n)],
                          order[static_cast<std::size_t>(next)]);
    hops.max = std::max(hops.max, distance);
    total += distance;
  }
  hops.mean =
      static_cast<double>(total) / static_cast<double>(mesh.device_count());
  return hops;
}

}  // namespace ringmax::mesh
