#include "ringmax/analysis/kernel_cycles.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"

namespace ringmax::analysis {
namespace {

using attention::splash::KernelSpec;
using attention::splash::KernelWork;

// Columns of the table.
constexpr std::size_t kMatmul = 0;
constexpr std::size_t kMatpush = 1;
constexpr std::size_t kFill = 7;
constexpr std::size_t kStore = 8;
constexpr std::size_t kSpill = 9;
constexpr std::size_t kColumns = 11;

using Row = std::vector<std::int64_t>;

std::string_view take_line(std::string_view* text) {
  const std::size_t end = std::min(text->find('\n'), text->size());
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

// The numbers of a line; empty when it is no line of kColumns numbers.
Row numbers(std::string_view line) {
  Row row;
  const char* at = line.data();
  const char* end = at + line.size();
  while (true) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) ++at;
    if (at == end) break;
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return {};
    row.push_back(value);
    at = stop;
  }
  return row.size() == kColumns ? row : Row();
}

// Rows of the utilization table, the first of which are the capacities.
std::vector<Row> table(std::string_view text) {
  std::vector<Row> rows;
  while (!text.empty()) {
    Row row = numbers(take_line(&text));
    if (!row.empty()) rows.push_back(std::move(row));
  }
  if (rows.empty() || rows[0][kMatmul] <= 0) {
    fail_invalid("this is no table of static utilization by bundle");
  }
  rows.erase(rows.begin());
  return rows;
}

// A loop body or a branch, [begin, end) of the table's rows.
struct Region {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool loop = false;
  bool matrix = false;  // pushes into the matrix units
  bool stores = false;  // into vector memory
  std::vector<Region> inside;

  std::int64_t size() const { return end - begin; }
};

// The number after `key` in a line; -1 when there is none.
std::int64_t number_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return -1;
  std::int64_t value = -1;
  const char* begin = line.data() + at + key.size();
  std::from_chars(begin, line.data() + line.size(), value);
  return value;
}

// "$region76: #{name} parent=201 // pred_region", and below it
// "// region range: [859, 5171)". Regions are listed as they nest.
Region region_tree(std::string_view text, const std::vector<Row>& rows) {
  std::vector<Region> found;
  bool wanted = false;
  bool loop = false;
  while (!text.empty()) {
    const std::string_view line = take_line(&text);
    if (line.find("$region") != std::string_view::npos &&
        line.find(": #{") != std::string_view::npos) {
      loop = line.ends_with("// loop_body");
      wanted = loop || line.ends_with("// pred_region");
      continue;
    }
    constexpr std::string_view kRange = "// region range: [";
    if (!wanted || line.find(kRange) == std::string_view::npos) continue;
    wanted = false;
    Region region;
    region.loop = loop;
    region.begin = number_after(line, kRange);
    region.end = number_after(line, ", ");
    if (region.begin < 0 || region.end < region.begin ||
        region.end > static_cast<std::int64_t>(rows.size())) {
      continue;
    }
    for (std::int64_t i = region.begin; i < region.end; ++i) {
      const Row& row = rows[static_cast<std::size_t>(i)];
      region.matrix = region.matrix || row[kMatmul] > 0 || row[kMatpush] > 0;
      region.stores = region.stores || row[kStore] > 0;
    }
    found.push_back(std::move(region));
  }
  std::stable_sort(
      found.begin(), found.end(), [](const Region& a, const Region& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
      });
  Region root;
  root.end = static_cast<std::int64_t>(rows.size());
  for (Region& region : found) {
    Region* home = &root;
    while (!home->inside.empty() && region.end <= home->inside.back().end) {
      home = &home->inside.back();
    }
    home->inside.push_back(std::move(region));
  }
  return root;
}

std::vector<const Region*> matrix_regions(const Region& region) {
  std::vector<const Region*> found;
  for (const Region& inside : region.inside) {
    if (inside.matrix) found.push_back(&inside);
  }
  return found;
}

// Cycles of a kind of block whose innermost loop, if it has one, runs `trips`
// times.
std::int64_t block_cycles(const Region& block, std::int64_t trips) {
  std::int64_t cycles = block.size();
  for (const Region& inside : block.inside) {
    if (inside.loop && inside.matrix) cycles += (trips - 1) * inside.size();
  }
  return cycles;
}

// The form of every splash kernel: a loop over grid steps; in it what begins a
// row or a program, a loop over the key blocks of a window (gone where there is
// one) with a branch for each kind of block, and what ends a row.
std::optional<KernelPieces> pieces_of(const Region& root,
                                      const KernelSpec& spec) {
  std::size_t kinds = 0;
  for (const bool has : {spec.full, spec.partial,
                         spec.triangular && spec.block_q == spec.block_kv}) {
    kinds += has ? 1 : 0;
  }
  KernelPieces pieces;
  const Region* grid = nullptr;
  const Region* window = nullptr;
  const Region* at = &root;
  std::int64_t rows = 0;
  std::int64_t programs = 0;
  std::vector<const Region*> blocks = matrix_regions(*at);
  while (blocks.size() == 1 && kinds > 1) {
    at = blocks[0];
    if (at->loop) (grid == nullptr ? grid : window) = at;
    blocks = matrix_regions(*at);
    for (const Region& beside : at->inside) {
      if (grid == nullptr || beside.matrix || !beside.stores) continue;
      rows += beside.size();
      // A program's beginning stands within a row's, or alone.
      for (const Region& first : beside.inside) {
        if (!first.stores) continue;
        programs += first.size();
        rows -= first.size();
      }
      const bool begins = !blocks.empty() && beside.begin < blocks[0]->begin;
      if (begins && beside.inside.empty()) {
        programs += beside.size();
        rows -= beside.size();
      }
    }
  }
  if (grid == nullptr || blocks.size() != kinds ||
      (window == nullptr && spec.window_parts > 1)) {
    return std::nullopt;
  }
  std::int64_t inside = 0;
  for (const Region* block : blocks) inside += block->size();
  pieces.call = root.size() - grid->size();
  pieces.program = programs;
  pieces.row = rows;
  pieces.step = grid->size() - rows - programs - inside;
  if (window != nullptr) {
    pieces.step += (spec.window_parts - 1) * (window->size() - inside);
  }
  std::size_t next = 0;
  if (spec.full) {
    pieces.full =
        block_cycles(*blocks[next++], spec.block_kv / spec.keys_unrolled);
  }
  if (spec.partial) {
    pieces.partial =
        block_cycles(*blocks[next++], spec.block_kv / spec.keys_at_once);
  }
  if (next < kinds) pieces.triangular = blocks[next]->size();
  return pieces;
}

}  // namespace

KernelCycles parse_kernel_cycles(std::string_view utilization,
                                 std::string_view regions,
                                 const KernelSpec& spec) {
  const std::vector<Row> rows = table(utilization);
  KernelCycles result;
  result.code = static_cast<std::int64_t>(rows.size());
  for (const Row& row : rows) {
    result.spills += row[kSpill];
    result.fills += row[kFill];
  }
  result.pieces = pieces_of(region_tree(regions, rows), spec);
  return result;
}

std::optional<KernelCycles> find_kernel_cycles(const std::string& directory,
                                               const std::string& instruction,
                                               const KernelSpec& spec) {
  // "TIME-INSTRUCTION-NN-PASS.txt"
  const std::string middle = "-" + instruction + "-";
  std::string utilization;
  std::string regions;
  for (const std::string& path : list_files(directory)) {
    if (path.find(middle) == std::string::npos) continue;
    if (path.ends_with("-pre-delay_hlo-static-per-bundle-utilization.txt")) {
      utilization = path;
    } else if (path.ends_with("-post-bundle-packing-post-ra.txt")) {
      regions = path;
    }
  }
  if (utilization.empty() || regions.empty()) return std::nullopt;
  return parse_kernel_cycles(read_file(utilization), read_file(regions), spec);
}

double cycles_of(const KernelPieces& p, const KernelWork& work) {
  const auto times = [](double count, std::int64_t cycles) {
    return count * static_cast<double>(cycles);
  };
  return times(work.calls, p.call) + times(work.programs, p.program) +
         times(work.counts.rows, p.row) + times(work.counts.steps, p.step) +
         times(work.counts.full, p.full) +
         times(work.counts.partial, p.partial) +
         times(work.counts.triangular, p.triangular);
}

double useful_utilisation(const KernelPieces& pieces, const KernelWork& work,
                          const hw::Target& target) {
  const hw::Chip& chip = hw::find_chip(target.chip);
  // Names count chips only where a chip is one core.
  const std::int64_t cores = chip.name_units_per_chip / chip.devices_per_chip;
  const double a_cycle = target.peak_flops(work.spec.dtype) / target.clock_hz /
                         static_cast<double>(cores);
  return work.flops / (cycles_of(pieces, work) * a_cycle);
}

}  // namespace ringmax::analysis
