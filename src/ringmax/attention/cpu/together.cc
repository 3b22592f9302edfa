#include "ringmax/attention/cpu/together.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::attention::cpu {
namespace {

template <typename T = std::byte>
hwy::AlignedFreeUniquePtr<T[]> allocate(std::int64_t count) {
  return hwy::AllocateAligned<T>(static_cast<std::size_t>(count));
}
template <typename T>
void copy(const T* from, std::int64_t count, T* to) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
}

// A [batch, head, row, column] array with its rows side by side.
ConstRows side_by_side(const void* data, std::int64_t heads, std::int64_t rows,
                       std::int64_t columns) {
  return {data, heads * rows * columns, rows * columns, columns};
}

struct Sizes {
  std::int64_t batch, heads, bytes;  // of a row
};

// Rows of every head and batch, run by run, a batch and head a task.
void gather(const std::vector<Run>& runs, const Sizes& sizes,
            const std::vector<const std::byte*>& parts, std::int64_t part_rows,
            std::byte* whole, const Workers& workers) {
  const std::int64_t rows = part_rows * std::ssize(parts);
  workers.run(sizes.batch * sizes.heads, [&](std::int64_t at) {
    for (const Run& run : runs) {
      copy(parts[run.part] + (at * part_rows + run.slot) * sizes.bytes,
           run.count * sizes.bytes,
           whole + (at * rows + run.whole) * sizes.bytes);
    }
  });
}

// The rows of one part, to where they are wanted.
void scatter(const std::vector<Run>& runs, std::int64_t part,
             std::int64_t batch, std::int64_t heads, std::int64_t rows,
             std::int64_t columns, const float* whole, const FloatRows& to) {
  for (const Run& run : runs) {
    if (run.part != part) continue;
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        float* row = to.data + b * to.batch + (run.slot + i) * to.row;
        const float* from =
            whole + (b * heads * rows + run.whole + i) * columns;
        for (std::int64_t h = 0; h < heads; ++h) {
          copy(from + h * rows * columns, columns, row + h * to.head);
        }
      }
    }
  }
}

}  // namespace

Part::Part(const Problem& p, std::int64_t parts, const BackwardInputs* gradient)
    : problem_(p), has_gradient_(gradient != nullptr) {
  const auto bytes = static_cast<std::int64_t>(dtype_size(p.dtype));
  const std::int64_t heads = p.kv_heads * p.groups;
  const auto keep = [&](const void* data, std::int64_t size) {
    memory_.push_back(allocate(size));
    if (data != nullptr) {
      copy(static_cast<const std::byte*>(data), size, memory_.back().get());
    }
    return memory_.back().get();
  };
  const auto rows = [&](const ConstRows& from, std::int64_t of_heads,
                        std::int64_t count, std::int64_t columns) {
    const ConstRows to = side_by_side(
        keep(nullptr, p.batch * of_heads * count * columns * bytes), of_heads,
        count, columns);
    const auto* source = static_cast<const std::byte*>(from.data);
    auto* target = memory_.back().get();
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t h = 0; h < of_heads; ++h) {
          copy(source + (b * from.batch + h * from.head + i * from.row) * bytes,
               columns * bytes,
               target + (b * to.batch + h * to.head + i * to.row) * bytes);
        }
      }
    }
    return to;
  };
  const auto ints = [&](const std::int32_t* from, std::int64_t count) {
    return from == nullptr ? nullptr
                           : reinterpret_cast<const std::int32_t*>(
                                 keep(from, count * std::int64_t{4}));
  };
  const auto floats = [&](const float* from, std::int64_t count) {
    return reinterpret_cast<const float*>(keep(from, count * std::int64_t{4}));
  };
  problem_.q = rows(p.q, heads, p.queries, p.head_dim);
  problem_.k = rows(p.k, p.kv_heads, p.keys, p.head_dim);
  problem_.v = rows(p.v, p.kv_heads, p.keys, p.value_dim);
  problem_.q_positions = ints(p.q_positions, p.queries);
  problem_.kv_positions = ints(p.kv_positions, p.keys);
  problem_.q_segments = ints(p.q_segments, p.batch * p.queries);
  problem_.kv_segments = ints(p.kv_segments, p.batch * p.keys);
  if (p.tile != nullptr) {
    problem_.tile = reinterpret_cast<const std::uint8_t*>(
        keep(p.tile, p.queries * p.keys * parts));
  }
  if (gradient == nullptr) return;
  const std::int64_t all = p.batch * heads * p.queries;
  gradient_.dout = rows(gradient->dout, heads, p.queries, p.value_dim);
  gradient_.lse = floats(gradient->lse, all);
  gradient_.delta = floats(gradient->delta, all);
}

namespace {

// Slots that are neighbours in a part; `first` is the position of the first.
struct Stretch {
  std::uint32_t first;
  std::int64_t part, slot, count;
};
// -1, padding, is the largest unsigned number.
constexpr std::uint32_t kPadding = 0xffffffff;

// Stretches of positions that count up, or of padding; of single slots unless
// `long_ones`. Sorted by their first positions.
std::vector<Stretch> sorted_stretches(
    const std::vector<const std::int32_t*>& positions, std::int64_t slots,
    bool long_ones) {
  std::vector<Stretch> all;
  for (std::int64_t part = 0; part < std::ssize(positions); ++part) {
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      const auto key = static_cast<std::uint32_t>(positions[part][slot]);
      if (long_ones && slot > 0) {
        Stretch& last = all.back();
        const bool padding = last.first == kPadding;
        if (padding ? key == kPadding
                    : key != kPadding && key == last.first + last.count) {
          ++last.count;
          continue;
        }
      }
      all.push_back({key, part, slot, 1});
    }
  }
  std::stable_sort(
      all.begin(), all.end(),
      [](const Stretch& a, const Stretch& b) { return a.first < b.first; });
  return all;
}

// Whether each ends before the next begins.
bool are_apart(const std::vector<Stretch>& sorted) {
  for (std::size_t i = 0; i + 1 < sorted.size(); ++i) {
    const std::uint32_t next = sorted[i + 1].first;
    if (next != kPadding && sorted[i].first + sorted[i].count > next) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<Run> in_order(const std::vector<const std::int32_t*>& positions,
                          std::int64_t slots) {
  std::vector<Stretch> sorted = sorted_stretches(positions, slots, true);
  // Positions that several slots have are put in order one by one.
  if (!are_apart(sorted)) sorted = sorted_stretches(positions, slots, false);
  std::vector<Run> runs;
  std::int64_t whole = 0;
  for (const Stretch& s : sorted) {
    if (!runs.empty() && runs.back().part == s.part &&
        runs.back().slot + runs.back().count == s.slot) {
      runs.back().count += s.count;
    } else {
      runs.push_back({s.part, s.slot, whole, s.count});
    }
    whole += s.count;
  }
  return runs;
}

// The sequence in order, and what is made of it.
struct Together::Whole {
  explicit Whole(const Parts& parts, const Workers& workers)
      : problem(parts.front()->problem()) {
    const Problem& p = parts.front()->problem();
    const auto n = std::ssize(parts);
    const auto each = [&](auto member) {
      std::vector<decltype(member(*parts.front()))> all;
      for (const auto& part : parts) all.push_back(member(*part));
      return all;
    };
    queries = in_order(
        each([](const Part& x) { return x.problem().q_positions; }), p.queries);
    keys = in_order(
        each([](const Part& x) { return x.problem().kv_positions; }), p.keys);
    problem.queries = p.queries * n;
    problem.keys = p.keys * n;
    const std::int64_t heads = p.kv_heads * p.groups;
    const auto element = static_cast<std::int64_t>(dtype_size(p.dtype));
    const auto bytes_of = [&](auto member) {
      return each([&](const Part& x) {
        return static_cast<const std::byte*>(
            static_cast<const void*>(member(x)));
      });
    };
    const auto whole = [&](const std::vector<Run>& runs, std::int64_t rows,
                           Sizes sizes, auto member) {
      memory.push_back(
          allocate(sizes.batch * sizes.heads * rows * n * sizes.bytes));
      gather(runs, sizes, bytes_of(member), rows, memory.back().get(), workers);
      return static_cast<const void*>(memory.back().get());
    };
    const auto rows = [&](const std::vector<Run>& runs, std::int64_t count,
                          std::int64_t of_heads, std::int64_t columns,
                          auto member) {
      return side_by_side(
          whole(runs, count, {p.batch, of_heads, columns * element}, member),
          of_heads, count * n, columns);
    };
    const auto ints = [&](const std::vector<Run>& runs, std::int64_t count,
                          std::int64_t batch, auto member) {
      return static_cast<const std::int32_t*>(
          whole(runs, count, {batch, 1, 4}, member));
    };
    const auto floats = [&](auto member) {
      return static_cast<const float*>(
          whole(queries, p.queries, {p.batch, heads, 4}, member));
    };
    problem.q = rows(queries, p.queries, heads, p.head_dim,
                     [](const Part& x) { return x.problem().q.data; });
    problem.k = rows(keys, p.keys, p.kv_heads, p.head_dim,
                     [](const Part& x) { return x.problem().k.data; });
    problem.v = rows(keys, p.keys, p.kv_heads, p.value_dim,
                     [](const Part& x) { return x.problem().v.data; });
    problem.q_positions = ints(queries, p.queries, 1, [](const Part& x) {
      return x.problem().q_positions;
    });
    problem.kv_positions = ints(keys, p.keys, 1, [](const Part& x) {
      return x.problem().kv_positions;
    });
    if (p.q_segments != nullptr) {
      problem.q_segments = ints(queries, p.queries, p.batch, [](const Part& x) {
        return x.problem().q_segments;
      });
      problem.kv_segments = ints(keys, p.keys, p.batch, [](const Part& x) {
        return x.problem().kv_segments;
      });
    }
    if (p.tile != nullptr) take_tile(parts, workers);
    if (!parts.front()->has_gradient()) return;
    gradient.dout = rows(queries, p.queries, heads, p.value_dim,
                         [](const Part& x) { return x.gradient().dout.data; });
    gradient.lse = floats([](const Part& x) { return x.gradient().lse; });
    gradient.delta = floats([](const Part& x) { return x.gradient().delta; });
  }

  void take_tile(const Parts& parts, const Workers& workers) {
    const std::int64_t row = problem.keys;
    const std::int64_t part_keys = parts.front()->problem().keys;
    memory.push_back(allocate(problem.queries * row));
    auto* const tile = reinterpret_cast<std::uint8_t*>(memory.back().get());
    workers.run(std::ssize(queries), [&](std::int64_t r) {
      const Run& run = queries[r];
      for (std::int64_t i = 0; i < run.count; ++i) {
        const std::uint8_t* from =
            parts[run.part]->problem().tile + (run.slot + i) * row;
        std::uint8_t* to = tile + (run.whole + i) * row;
        for (const Run& k : keys) {
          copy(from + k.part * part_keys + k.slot, k.count, to + k.whole);
        }
      }
    });
    problem.tile = tile;
  }

  FloatRows room(std::int64_t heads, std::int64_t rows, std::int64_t columns,
                 hwy::AlignedFreeUniquePtr<float[]>& to) const {
    to = allocate<float>(problem.batch * heads * rows * columns);
    return {to.get(), heads * rows * columns, rows * columns, columns};
  }

  Problem problem;
  BackwardInputs gradient;
  std::vector<Run> queries, keys;
  std::vector<hwy::AlignedFreeUniquePtr<std::byte[]>> memory;
  hwy::AlignedFreeUniquePtr<float[]> out, sum, max, dq, dk, dv;
};

Together::Together(Parts parts) : parts_(std::move(parts)) {
  const auto sizes = [](const Part& x) {
    const Problem& p = x.problem();
    return std::array<std::int64_t, 12>{p.batch,
                                        p.kv_heads,
                                        p.groups,
                                        p.queries,
                                        p.keys,
                                        p.head_dim,
                                        p.value_dim,
                                        static_cast<std::int64_t>(p.dtype),
                                        p.q_segments != nullptr,
                                        p.kv_segments != nullptr,
                                        p.tile != nullptr,
                                        x.has_gradient()};
  };
  for (const auto& part : parts_) {
    if (sizes(*part) != sizes(*parts_.front())) {
      fail_invalid("devices bring shards of other sizes");
    }
  }
}

const Part& Together::part(std::int64_t i) const { return *parts_[i]; }

void Together::forward(const Workers& workers) {
  whole_ = std::make_shared<Whole>(parts_, workers);
  Whole& w = *whole_;
  const Problem& p = w.problem;
  const std::int64_t heads = p.kv_heads * p.groups;
  const std::int64_t rows = p.batch * heads * p.queries;
  w.sum = allocate<float>(rows);
  w.max = allocate<float>(rows);
  cpu::forward(
      p,
      {w.room(heads, p.queries, p.value_dim, w.out), w.sum.get(), w.max.get()},
      workers);
  w.memory.clear();
}

void Together::backward(const Workers& workers) {
  if (!parts_.front()->has_gradient()) fail_invalid("there is no dout");
  whole_ = std::make_shared<Whole>(parts_, workers);
  Whole& w = *whole_;
  const Problem& p = w.problem;
  BackwardInputs in = w.gradient;
  in.dq = w.room(p.kv_heads * p.groups, p.queries, p.head_dim, w.dq);
  in.dk = w.room(p.kv_heads, p.keys, p.head_dim, w.dk);
  in.dv = w.room(p.kv_heads, p.keys, p.value_dim, w.dv);
  in.fresh = true;
  cpu::backward(p, in, workers);
  w.memory.clear();
}

void Together::take(std::int64_t part, const ForwardResult& r) const {
  const Whole& w = *whole_;
  const Problem& p = w.problem;
  const std::int64_t heads = p.kv_heads * p.groups;
  scatter(w.queries, part, p.batch, heads, p.queries, p.value_dim, w.out.get(),
          r.out);
  const std::int64_t rows = p.queries / parts();
  const FloatRows statistics{nullptr, heads * rows, rows, 1};
  for (const auto& [from, to] :
       {std::pair(w.sum.get(), r.sum), std::pair(w.max.get(), r.max)}) {
    FloatRows at = statistics;
    at.data = to;
    scatter(w.queries, part, p.batch, heads, p.queries, 1, from, at);
  }
}

void Together::take(std::int64_t part, const FloatRows& dq, const FloatRows& dk,
                    const FloatRows& dv) const {
  const Whole& w = *whole_;
  const Problem& p = w.problem;
  scatter(w.queries, part, p.batch, p.kv_heads * p.groups, p.queries,
          p.head_dim, w.dq.get(), dq);
  scatter(w.keys, part, p.batch, p.kv_heads, p.keys, p.head_dim, w.dk.get(),
          dk);
  scatter(w.keys, part, p.batch, p.kv_heads, p.keys, p.value_dim, w.dv.get(),
          dv);
}

}  // namespace ringmax::attention::cpu
